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

/// A machine file, parsed and looked at from all sides: by `check_schema`, `check_consistency` and
/// `MachineSources`, and with the file that its costs are taken from. Immutable.
///
/// Where there is a problem, nothing but `problems` may be asked.
class MachineDocument {
 public:
  /// Of a file; one that cannot be read is a problem too.
  static MachineDocument load(const std::string& file);
  /// `file` is what problems name, and where a machine that costs are taken from is looked for too.
  static MachineDocument parse(std::string_view text, const std::string& file);

  const std::string& file() const noexcept { return file_; }
  /// In the order of the file.
  const MachineProblems& problems() const noexcept { return problems_; }
  /// "FILE: line 3: gpus[0].memory_mib: is missing".
  std::string describe(const MachineProblem& problem) const;

  const boost::json::object& json() const { return text_->value().get_object(); }
  /// Of this file, or of the one that it names.
  const boost::json::object& costs() const;
  /// All numbers, each with its source; of costs that another file has, that file's where this one
  /// says nothing of them.
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
  /// Whether its GPUs are those of `other`, by name.
  bool same_gpus(const MachineDocument& other) const;

  std::string file_;
  std::optional<JsonText> text_;  // None: it is no JSON.
  MachineProblems problems_;
  std::shared_ptr<const MachineDocument> costs_of_;  // Null: the costs are its own.
  std::vector<SourcedNumber> numbers_;
};

}  // namespace vma
