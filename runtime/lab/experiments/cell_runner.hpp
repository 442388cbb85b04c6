#pragma once

#include "lab/experiments/cell_file.hpp"
#include "lab/experiments/experiment_inputs.hpp"

#include <boost/json/value.hpp>

#include <string>

namespace vma {

/// Runs single cells. A cell's text is a function of what it is given, and of nothing else. All
/// calls may come from any thread.
class CellRunner {
 public:
  /// Requires: `inputs` lives as long as it.
  explicit CellRunner(const ExperimentInputs& inputs) : inputs_(inputs) {}

  /// One line of JSON, as `docs/guide/experiments.md` has it. `bound` is null, or of this cell's
  /// machine, trace, router and seed. Throws: Error for a replay that fails.
  std::string run(const ExperimentCell& cell, const ReadyTrace& trace,
                  const boost::json::value& bound) const;

  /// Throws: Error{invalid_argument} that says what differs, if a finished cell is of other inputs.
  void require_same(const ExperimentCell& cell, const ReadyTrace& trace,
                    const CellFile& finished) const;

 private:
  const ExperimentInputs& inputs_;
};

}  // namespace vma
