#pragma once

#include "machine/machine_description.hpp"

#include <boost/json/value.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Reads a machine by name ("h200x2") or by path (one that contains '/' or ends in ".json").
///
/// A name is searched in the directory of VMART_MACHINES, then beside the installed library
/// (../share/vmart/machines), then in the source tree that the library was built from. Throws:
/// Error{invalid_argument} that names the file, the key in it and the reason.
MachineDescription load_machine(const std::string& name_or_path);

/// Parses a machine from text; `file` is named in errors.
MachineDescription parse_machine(std::string_view text, const std::string& file);

/// Names that `load_machine` would find, sorted.
std::vector<std::string> machine_names();

/// The path of a machine file: `name` itself if it is a path, otherwise NAME.json in one of the
/// folders that `load_machine` searches, the one beside `referrer` (a path, may be empty) last.
/// Throws: Error{invalid_argument} that lists the folders.
std::string find_machine_file(const std::string& name, const std::string& referrer = "");

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

/// A machine file, read and checked, with the costs of the file that it names for them. Immutable.
///
/// The member `sources` of a file is an object that maps paths to "KIND: where from". A path covers
/// everything below it, and the longest matching path applies. Machines whose name begins with
/// "test-" may say "made up" instead, which covers everything.
class MachineDocument {
 public:
  /// Reads a file. A file that cannot be read counts as a problem.
  static MachineDocument load(const std::string& file);
  /// Problems name `file`; a machine that costs refer to is also searched in its folder.
  static MachineDocument parse(std::string_view text, const std::string& file);

  const std::string& file() const noexcept { return file_; }
  /// All that is wrong with it: "FILE: gpus[0].memory_mib: is missing".
  const std::vector<std::string>& problems() const noexcept { return problems_; }

  /// Requires, like `numbers`: there are no problems.
  const MachineDescription& machine() const noexcept { return machine_; }
  /// All numbers with their sources. For costs from another file, that file's source applies unless
  /// this file gives one.
  const std::vector<SourcedNumber>& numbers() const noexcept { return numbers_; }

 private:
  explicit MachineDocument(const std::string& file) : file_(file) {}
  static MachineDocument load(const std::string& file, int links_left);
  static MachineDocument parse(std::string_view text, const std::string& file, int links_left);
  /// Returns what is wrong with it.
  std::vector<std::string> check(const boost::json::value& json, int links_left);
  std::optional<MachineDocument> costs_of(const boost::json::value& costs, int links_left,
                                          std::vector<std::string>& problems) const;

  std::string file_;
  std::vector<std::string> problems_;
  MachineDescription machine_;
  std::vector<SourcedNumber> numbers_;
};

}  // namespace vma
