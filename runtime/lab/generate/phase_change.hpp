#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// In each phase each GPU passes over its own working set again and again, in the same order at a
/// constant pace. In the next phase all working sets are redrawn from all objects. The sets of one
/// phase are disjoint. A mark begins each phase, to show how long a policy takes to come to rest.
void generate_phase_change(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array phase_change_parameters{
    gpus_parameter,
    object_bytes_parameter,
    TraceParameter{"objects", 1000, 1, 1e7, "objects"},
    TraceParameter{"set", 50, 1, 1e7, "objects in a GPU's working set"},
    TraceParameter{"phases", 4, 1, 60e3, "phases"},
    TraceParameter{"phase_s", 15, 1e-6, 1e6, "duration of a phase", false},
    TraceParameter{"accesses_s", 1000, 1e-3, 1e8, "accesses per second of one GPU", false}};

}  // namespace vma
