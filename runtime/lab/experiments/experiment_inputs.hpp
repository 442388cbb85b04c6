#pragma once

#include "lab/experiments/experiment_cell.hpp"
#include "lab/experiments/ready_trace.hpp"

#include <boost/json/object.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// What results follow from: it is kept in each, so that one that follows from something else is
/// known. Immutable.
class ExperimentInputs {
 public:
  /// Requires: `experiment` lives as long as it. Throws: Error{invalid_argument} for a library that
  /// cannot be read.
  explicit ExperimentInputs(const Experiment& experiment);

  /// What the cell is replayed on. A function of the experiment's machine and of the trace's room.
  ReplayMachine machine_of(const ExperimentCell& cell, const ReadyTrace& trace) const;
  /// `to_json` of the cell, and the capacity of each GPU where that is a share of the trace.
  boost::json::object names_of(const ExperimentCell& cell, const ReadyTrace& trace) const;
  /// The keys of `names_of`, the program's version, and sums of the machine's figures, of the
  /// trace's bytes and of the library's that the policy is of.
  boost::json::object of(const ExperimentCell& cell, const ReadyTrace& trace) const;
  /// The same without what a bound does not follow from.
  boost::json::object of_bound(const ExperimentCell& cell, const ReadyTrace& trace) const;

  const Experiment& experiment() const noexcept { return experiment_; }

 private:
  const Experiment& experiment_;
  std::vector<std::string> machine_sums_;
  std::map<std::string, std::string> library_sums_;  // By policy.
};

/// Of this program: another may make other results of the same inputs.
std::string_view program_version();

/// Throws: Error{invalid_argument} that names the file and what differs.
void require_same_inputs(const boost::json::object& wanted, const boost::json::object& known,
                         const std::string& file);

}  // namespace vma
