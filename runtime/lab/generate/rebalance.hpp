#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// The work of the example `rebalance`, in a fixed amount: each GPU reads its own block again and
/// again, in launches. The blocks rotate with each phase: each GPU then reads the block of its
/// successor. Block i, an object with several chunks, starts at GPU i. A mark begins each phase.
/// Nothing is random: all seeds give the same events.
void generate_rebalance(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array rebalance_parameters{
    TraceParameter{"gpus", 4, 1, 9999, "number of GPUs; each reads a block"},
    TraceParameter{"chunk_bytes", 256 << 20, 1, 1e9, "size of a chunk"},
    TraceParameter{"chunks", 8, 1, 1e6, "chunks per block"},
    TraceParameter{"launch_bytes", 256 << 20, 1 << 16, 1e12, "maximum bytes per access"},
    TraceParameter{"phases", 4, 1, 60e3, "phases"},
    TraceParameter{"rounds", 150, 1, 1e7, "reads of a block per phase"},
    TraceParameter{"round_s", 0.006, 1e-9, 1e6, "time between reads of a block", false}};

}  // namespace vma
