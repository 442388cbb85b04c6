#pragma once

#include "machine/json_text.hpp"
#include "machine/machine_problem.hpp"
#include "machine/machine_sources.hpp"

#include <boost/json/object.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// A machine file, parsed and checked by `check_schema`, `check_consistency` and `MachineSources`,
/// with the file that its costs come from. Immutable.
///
/// If there are problems, only `problems` and `describe` may be called.
class MachineDocument {
 public:
  /// Reads a file. A file that cannot be read counts as a problem.
  static MachineDocument load(const std::string& file);
  /// Problems name `file`; a machine that costs refer to is also searched in its folder.
  static MachineDocument parse(std::string_view text, const std::string& file);

  const std::string& file() const noexcept { return file_; }
  /// In the order of the file.
  const MachineProblems& problems() const noexcept { return problems_; }
  /// "FILE: line 3: gpus[0].memory_mib: is missing".
  std::string describe(const MachineProblem& problem) const;

  const boost::json::object& json() const { return text_->value().get_object(); }
  /// The costs in this file, or in the file that it refers to.
  const boost::json::object& costs() const;
  /// All numbers with their sources. For costs from another file, that file's source applies unless
  /// this file gives one.
  const std::vector<SourcedNumber>& numbers() const noexcept { return numbers_; }

 private:
  MachineDocument() = default;
  static MachineDocument load(const std::string& file, int links_left);
  static MachineDocument read(const std::string& file, int links_left,
                              const std::function<JsonText()>& text);

  void refuse(std::string path, std::string reason);
  void check(int links_left);
  void follow_costs(int links_left);
  void find_sources(const std::vector<std::string>& own, const MachineSources& sources);
  /// Whether its GPUs have the same names as those of `other`.
  bool same_gpus(const MachineDocument& other) const;

  std::string file_;
  std::optional<JsonText> text_;  // None if the file is not JSON.
  MachineProblems problems_;
  std::shared_ptr<const MachineDocument> costs_of_;  // Null if the costs are in this file.
  std::vector<SourcedNumber> numbers_;
};

}  // namespace vma
