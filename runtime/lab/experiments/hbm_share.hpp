#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/trace/trace_audit.hpp"

#include <cstdint>

namespace vma {

inline constexpr double hbm_share_min = 0.001;
inline constexpr double hbm_share_max = 64;
/// Room for so many of the trace's largest chunks is left to each GPU.
inline constexpr std::uint64_t hbm_chunks_min = 4;

/// What each GPU of `gpus` has if all together have `share` of what the trace has alive at its
/// peak: whole chunks, at least `hbm_chunks_min`. Requires: `share` is between the bounds above;
/// `chunk_bytes` is what a replay cuts objects into where the trace does not say.
std::uint64_t hbm_of_share(double share, const TraceRoom& room, std::uint64_t chunk_bytes,
                           std::size_t gpus);

/// Sets the capacity of each GPU to `hbm_of_share`, but not to more than it has. Returns it, of the
/// largest GPU.
std::uint64_t share_hbm(ReplayMachine& machine, double share, const TraceRoom& room,
                        std::uint64_t chunk_bytes);

}  // namespace vma
