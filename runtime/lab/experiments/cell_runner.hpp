#pragma once

#include "lab/experiments/cell_file.hpp"
#include "lab/experiments/experiment_inputs.hpp"

#include <boost/json/value.hpp>

#include <optional>
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

/// Computes the lower bound shared by all cells that differ only in the policy. Its text depends
/// only on the inputs. Any thread.
class BoundRunner {
 public:
  /// Requires: `inputs` outlives it.
  explicit BoundRunner(const ExperimentInputs& inputs) : inputs_(inputs) {}

  /// Returns one line of JSON, as described in `docs/guide/experiments.md`; if the trace has no
  /// bound, the line contains the reason. Throws: other errors, which may be temporary.
  std::string run(const ExperimentCell& cell, const ReadyTrace& trace) const;

  /// Returns the part of such a line that cells contain: an object or null. Returns nothing if the
  /// text is not a complete line. Throws: Error{invalid_argument} that says what differs, if the
  /// line was made from other inputs.
  std::optional<boost::json::value> read(const std::string& text, const std::string& file,
                                         const ExperimentCell& cell, const ReadyTrace& trace) const;

 private:
  const ExperimentInputs& inputs_;
};

}  // namespace vma
