#pragma once

#include "lab/experiments/cell_file.hpp"
#include "lab/experiments/experiment_inputs.hpp"

#include <boost/json/value.hpp>

#include <string>

namespace vma {

/// Runs single cells. The text of a cell depends only on the arguments. Any thread.
class CellRunner {
 public:
  /// Requires: `inputs` outlives it.
  explicit CellRunner(const ExperimentInputs& inputs) : inputs_(inputs) {}

  /// Returns one line of JSON, as described in `docs/guide/experiments.md`. `bound` is null, or
  /// belongs to this cell's machine, trace, router and seed. Throws: Error if the replay fails.
  std::string run(const ExperimentCell& cell, const ReadyTrace& trace,
                  const boost::json::value& bound) const;

  /// Throws: Error{invalid_argument} that says what differs, if a finished cell has other inputs.
  void require_same(const ExperimentCell& cell, const ReadyTrace& trace,
                    const CellFile& finished) const;

 private:
  const ExperimentInputs& inputs_;
};

}  // namespace vma
