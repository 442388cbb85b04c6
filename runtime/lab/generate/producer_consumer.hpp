#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// GPU 2n writes to the buffers of a ring, one every "period_us". GPU 2n + 1 reads each buffer
/// "reads" times. A ring has "lag" + 1 buffers. Every "swap_s" seconds (0: never) there is a mark,
/// and all pairs swap roles.
///
/// In a closed loop, each buffer is written by one task and read by another, which takes a period
/// for all its reads. Each follows the one for the buffer before. The reader waits for the writer,
/// and the writer waits until the buffer has been read that it overwrites. A write takes a period
/// and a random share of up to "jitter" of it. In an open loop, the reads are evenly spread from
/// one to "lag" periods after the write, and each period of a pair starts late by such a share.
void generate_producer_consumer(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array producer_consumer_parameters{
    object_bytes_parameter,
    length_parameter,
    TraceParameter{"pairs", 4, 1, 4999, "pairs of GPUs"},
    TraceParameter{"period_us", 1000, 1, 1e9, "time between buffers"},
    TraceParameter{"lag", 4, 1, 1e4, "number of periods that read a buffer"},
    TraceParameter{"reads", 4, 1, 1e4, "reads per buffer"},
    TraceParameter{"swap_s", 20, 0, 1e6, "time between role changes; 0: none", false},
    TraceParameter{"jitter", 0.1, 0, 0.99, "how late a period may begin, in periods", false},
    closed_parameter};

}  // namespace vma
