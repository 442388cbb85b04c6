#pragma once

#include "lab/replay/replay.hpp"
#include "lab/replay/replay_metrics.hpp"
#include "lab/trace/trace_audit.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vma {

// Parses values that users give for a replay, on a command line or in an experiment file.

std::string_view to_string(Pacing pacing) noexcept;
/// Throws: Error{invalid_argument} that lists the names.
Pacing parse_pacing(const std::string& name);

std::string_view to_string(ToldUses uses) noexcept;
/// Throws: Error{invalid_argument} that lists the names.
ToldUses parse_told_uses(const std::string& name);
StopKind parse_stop(const std::string& name);

/// Chooses how work is stopped, with the runtime's limit for it. What the machine would take for
/// the other kind is dropped from it. Throws: Error{invalid_argument} if it cannot do that.
void stop_by(StopKind stop, ReplayMachine& machine, ReplayOptions& options);

std::string_view to_string(Admission admission) noexcept;
std::string_view to_string(AdmissionMemory memory) noexcept;
/// Both throw: Error{invalid_argument} that lists the names.
Admission parse_admission(const std::string& name);
AdmissionMemory parse_admission_memory(const std::string& name);

/// Limits of requests that a user gives in milliseconds. Throws as `milliseconds_of`.
RequestLimits request_limits(std::optional<double> first_ms, std::optional<double> step_ms,
                             std::string_view call);

/// Converts `amount` units to bytes. Throws: Error{invalid_argument} with `what` if the result is
/// less than one byte, or 10^18 or more.
std::uint64_t bytes_of(double amount, double unit, std::string_view what);

/// Converts milliseconds to a time. Throws: Error{invalid_argument} of `call` with `option` if the
/// amount is not between `least` and `most`.
Time milliseconds_of(double amount, double least, double most, std::string_view option,
                     std::string_view call);

/// Capacities in GiB that override the machine's, for each GPU and for each host node. Throws as
/// `bytes_of`.
struct PlaceCaps {
  std::optional<double> hbm_gib, host_gib;
};
void cap_places(ReplayMachine& machine, const PlaceCaps& caps);

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
