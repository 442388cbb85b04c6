#pragma once

#include "machine/machine_problem.hpp"

#include <boost/json/value.hpp>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// How a number of a machine file came about: the first word of its source.
enum class SourceKind { measured, datasheet, driver, estimate, made_up };
std::string_view to_string(SourceKind kind);

struct NumberSource {
  SourceKind kind = SourceKind::estimate;
  std::string from;
};

/// A number of a machine file and where it is from.
struct SourcedNumber {
  std::string path;
  NumberSource source;
};

/// Where the numbers of a machine file are from: the member `sources`, an object from paths to
/// "KIND: where from". A path stands for all that is in it; of several the longest counts. Machines
/// whose name begins with "test-" may say "made up" instead, which stands for all they have.
class MachineSources {
 public:
  /// Reads `sources` of the file; what is wrong with it goes to `problems`. `paths` are those that
  /// it may name.
  static MachineSources read(const boost::json::value& file, const std::set<std::string>& paths,
                             MachineProblems& problems);

  /// Null: nothing is said of it.
  const NumberSource* of(std::string_view path) const;

 private:
  bool all_made_up_ = false;
  std::map<std::string, NumberSource, std::less<>> by_path_;
};

}  // namespace vma
