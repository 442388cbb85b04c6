#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// Reads of whole objects as a Poisson process; Zipf's law determines the object. Each object has
/// an own GPU that uses it with probability "affinity"; otherwise a random GPU does. Every
/// "drift_s" each of the hottest tenth of the ranks goes to another object with probability
/// "drift", and that object's own GPU is redrawn: so the hot objects and their GPUs change
/// gradually, without marks. An access writes with probability "write".
void generate_zipf_drift(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array zipf_drift_parameters{
    gpus_parameter,
    object_bytes_parameter,
    length_parameter,
    TraceParameter{"objects", 1000, 1, 1e7, "objects"},
    TraceParameter{"accesses_s", 10'000, 1e-3, 1e8, "average accesses per second", false},
    TraceParameter{"skew", 1, 0, 4, "exponent of Zipf's law; 0: uniform", false},
    TraceParameter{"affinity", 0.9, 0, 1, "how often an object's own GPU uses it", false},
    TraceParameter{"drift_s", 5, 1e-3, 1e6, "time between drifts", false},
    TraceParameter{"drift", 0.1, 0, 1, "share of the hottest tenth that a drift replaces", false},
    TraceParameter{"write", 0.1, 0, 1, "share of accesses that write", false}};

}  // namespace vma
