#pragma once

#include "lab/experiments/experiment_cell.hpp"
#include "lab/experiments/ready_trace.hpp"

#include <boost/json/object.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// The inputs that results depend on. Each result stores them, so that a result from other inputs
/// is recognised. Immutable.
class ExperimentInputs {
 public:
  /// Requires: `experiment` outlives it. Throws: Error{invalid_argument} if a library cannot be
  /// read.
  explicit ExperimentInputs(const Experiment& experiment);

  /// The machine on which the cell is replayed; it depends on the experiment's machine and on the
  /// memory that the trace needs.
  ReplayMachine machine_of(const ExperimentCell& cell, const ReadyTrace& trace) const;
  /// `to_json` of the cell, and the capacity of each GPU if that is a share of the trace.
  boost::json::object names_of(const ExperimentCell& cell, const ReadyTrace& trace) const;
  /// The keys of `names_of`, the program's version, and checksums of the machine's numbers, the
  /// trace's bytes and the policy's library.
  boost::json::object of(const ExperimentCell& cell, const ReadyTrace& trace) const;
  /// Like `of`, without the inputs that do not affect a bound.
  boost::json::object of_bound(const ExperimentCell& cell, const ReadyTrace& trace) const;

  const Experiment& experiment() const noexcept { return experiment_; }

 private:
  const Experiment& experiment_;
  std::vector<std::string> machine_sums_;
  std::map<std::string, std::string> library_sums_;  // Keyed by policy.
};

/// The version of this program; another one may produce other results from the same inputs.
std::string_view program_version();

/// Throws: Error{invalid_argument} with the file and what differs.
void require_same_inputs(const boost::json::object& wanted, const boost::json::object& known,
                         const std::string& file);

}  // namespace vma
