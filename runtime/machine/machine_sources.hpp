#pragma once

#include "machine/machine_problem.hpp"

#include <boost/json/value.hpp>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// How a number of a machine file was obtained: the first word of its source.
enum class SourceKind { measured, datasheet, driver, estimate, made_up };
std::string_view to_string(SourceKind kind);

struct NumberSource {
  SourceKind kind = SourceKind::estimate;
  std::string from;
};

/// A number of a machine file and its source.
struct SourcedNumber {
  std::string path;
  NumberSource source;
};

/// The sources of the numbers in a machine file: the member `sources`, an object that maps paths to
/// "KIND: where from". A path covers everything below it, and the longest matching path applies.
/// Machines whose name begins with "test-" may say "made up" instead, which covers everything.
class MachineSources {
 public:
  /// Reads `sources` of the file and adds its errors to `problems`. It may name only `paths`.
  static MachineSources read(const boost::json::value& file, const std::set<std::string>& paths,
                             MachineProblems& problems);

  /// Null if no source is given.
  const NumberSource* of(std::string_view path) const;

 private:
  bool all_made_up_ = false;
  std::map<std::string, NumberSource, std::less<>> by_path_;
};

}  // namespace vma
