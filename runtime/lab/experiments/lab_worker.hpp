#pragma once

#include "base/json.hpp"
#include "lab/experiments/cell_runner.hpp"

#include <boost/json/object.hpp>

#include <map>
#include <memory>
#include <string>

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
  /// Returns a line with its line end. Does not throw, except without memory for that line.
  std::string answer(const std::string& question);

 private:
  using Answer = boost::json::object;

  std::string line_for(JsonReader question);
  Answer machine(JsonReader& question);
  std::string cell(JsonReader& question);
  std::string bound(JsonReader& question);

  const ReplayMachine& known_machine(JsonReader& described);
  ReplayMachine machine_of(JsonReader& question);
  CellSetting setting(JsonReader& question);

  std::map<std::string, ReplayMachine> machines_;  // Keyed by how they are described.
};

}  // namespace vma
