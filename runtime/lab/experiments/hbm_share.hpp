#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/trace/trace_audit.hpp"

#include <cstdint>

namespace vma {

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
