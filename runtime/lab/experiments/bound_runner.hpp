#pragma once

#include "lab/experiments/experiment_inputs.hpp"

#include <boost/json/value.hpp>

#include <optional>
#include <string>

namespace vma {

/// Finds the lower bound of all cells that differ in nothing but the policy. Its text is a function
/// of its inputs only. All calls may come from any thread.
class BoundRunner {
 public:
  /// Requires: `inputs` lives as long as it.
  explicit BoundRunner(const ExperimentInputs& inputs) : inputs_(inputs) {}

  /// One line of JSON, as `docs/guide/experiments.md` has it; where there is none for such a trace,
  /// with the reason. Throws: what keeps it from being found this time.
  std::string run(const ExperimentCell& cell, const ReadyTrace& trace) const;

  /// What cells carry of such a line: an object or null. Nothing if the text is no whole line.
  /// Throws: Error{invalid_argument} that says what differs, if it is of other inputs.
  std::optional<boost::json::value> read(const std::string& text, const std::string& file,
                                         const ExperimentCell& cell, const ReadyTrace& trace) const;

 private:
  const ExperimentInputs& inputs_;
};

}  // namespace vma
