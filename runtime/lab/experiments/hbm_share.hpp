#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/trace/trace_audit.hpp"

#include <cstdint>

namespace vma {

inline constexpr double hbm_share_min = 0.001;
inline constexpr double hbm_share_max = 64;
/// Minimum room of each GPU, in the trace's largest chunks.
inline constexpr std::uint64_t hbm_chunks_min = 4;

/// The HBM of each GPU of `gpus` if all together have `share` of the trace's peak of live bytes:
/// whole chunks, at least `hbm_chunks_min`. Requires: `share` is between the bounds above;
/// `chunk_bytes` is the replay's chunk size if the trace does not give one.
std::uint64_t hbm_of_share(double share, const TraceRoom& room, std::uint64_t chunk_bytes,
                           std::size_t gpus);

/// Sets the capacity of each GPU to `hbm_of_share`, limited to what it has. Returns that of the
/// largest GPU.
std::uint64_t share_hbm(ReplayMachine& machine, double share, const TraceRoom& room,
                        std::uint64_t chunk_bytes);

}  // namespace vma
