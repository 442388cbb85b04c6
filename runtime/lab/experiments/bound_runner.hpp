#pragma once

#include "lab/experiments/experiment_inputs.hpp"

#include <boost/json/value.hpp>

#include <optional>
#include <string>

namespace vma {

/// Finds the lower bound of all cells that differ only in the policy. Its text depends only on its
/// inputs. Any thread.
class BoundRunner {
 public:
  /// Requires: `inputs` outlives it.
  explicit BoundRunner(const ExperimentInputs& inputs) : inputs_(inputs) {}

  /// One line of JSON, as described in `docs/guide/experiments.md`; if such a trace has no bound,
  /// with the reason. Throws: temporary failures.
  std::string run(const ExperimentCell& cell, const ReadyTrace& trace) const;

  /// The part of such a line that cells contain: an object or null. None if the text is not a
  /// complete line. Throws: Error{invalid_argument} that says what differs, if it has other inputs.
  std::optional<boost::json::value> read(const std::string& text, const std::string& file,
                                         const ExperimentCell& cell, const ReadyTrace& trace) const;

 private:
  const ExperimentInputs& inputs_;
};

}  // namespace vma
