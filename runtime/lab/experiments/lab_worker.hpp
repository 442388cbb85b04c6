#pragma once

#include "base/json.hpp"
#include "lab/experiments/cell_runner.hpp"
#include "placement/policies/policy_registry.hpp"
#include "scheduling/policy_library.hpp"

#include <boost/json/object.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace vma {

/// Answers the questions of `vmart.lab.experiments`, which runs experiments: about names and
/// parameters in an experiment's file, traces, cells and bounds. A question is an object that names
/// what to do ("do") and carries all that the answer depends on; question and answer are one line
/// of JSON each. An error becomes {"error": TEXT}.
///
/// Machine files are read once. What a cell or a bound is to record of its machine, policy and
/// version has to be what this worker has of them; otherwise the answer is an error. Not
/// thread-safe.
class LabWorker {
 public:
  /// Returns the policies in a file. May throw any exception.
  using LoadPolicies = std::function<PolicyRegistry(const std::string& path)>;

  /// `load` loads those files that policies name: by default, shared objects.
  explicit LabWorker(LoadPolicies load = load_policies) : load_(std::move(load)) {}

  /// Returns a line with its line end. Does not throw, except without memory for that line.
  std::string answer(const std::string& question);

 private:
  using Answer = boost::json::object;

  std::string line_for(JsonReader question);
  Answer machine(JsonReader& question);
  Answer policy(JsonReader& question);
  std::unique_ptr<Policy> policy_of(const std::string& text, const std::string& library);
  std::string cell(JsonReader& question);
  std::string bound(JsonReader& question);

  const ReplayMachine& known_machine(JsonReader& described);
  ReplayMachine machine_of(JsonReader& question, ReplayOptions& options);
  CellSetting setting(JsonReader& question);

  const LoadPolicies load_;
  std::map<std::string, ReplayMachine> machines_;  // Keyed by how they are described.
};

}  // namespace vma
