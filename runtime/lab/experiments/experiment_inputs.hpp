#pragma once

#include "lab/experiments/experiment.hpp"
#include "lab/experiments/ready_trace.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/trace/trace_audit.hpp"

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
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

inline constexpr double hbm_share_min = 0.001;
inline constexpr double hbm_share_max = 64;
/// Minimum capacity of each GPU, in chunks of the trace's largest size.
inline constexpr std::uint64_t hbm_chunks_min = 4;

/// The HBM of each of `gpus` GPUs such that all together have `share` of the trace's peak of live
/// bytes: a whole number of chunks, at least `hbm_chunks_min`. Requires: `share` is between the
/// bounds above. `chunk_bytes` is the replay's chunk size for objects without one in the trace.
std::uint64_t hbm_of_share(double share, const TraceRoom& room, std::uint64_t chunk_bytes,
                           std::size_t gpus);

/// Limits the capacity of each GPU to `hbm_of_share`. Returns the resulting capacity of the largest
/// GPU.
std::uint64_t share_hbm(ReplayMachine& machine, double share, const TraceRoom& room,
                        std::uint64_t chunk_bytes);

}  // namespace vma
