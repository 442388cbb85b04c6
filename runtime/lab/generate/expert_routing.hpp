#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// Mixture of experts. In each step each GPU processes its own batch, layer by layer: each of its
/// tokens chooses "chosen" experts of the layer by Zipf's law, and the GPU reads the weights of
/// each chosen expert once, in full. Popularity differs by layer and GPU, since each GPU serves
/// other kinds of requests: with probability "alike" a token chooses by the layer's common
/// popularity instead. Every "drift_steps" steps, each expert in the more popular half swaps its
/// rank with a random one with probability "drift". An expert is an object numbered layer * experts
/// + expert; a step of a GPU is a task with a device.
void generate_moe(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array moe_parameters{
    gpus_parameter,
    TraceParameter{"object_bytes", 32 << 20, 1, 1e13, "size of an expert's weights"},
    TraceParameter{"layers", 16, 1, 1e4, "layers"},
    TraceParameter{"experts", 64, 1, 1e5, "experts per layer"},
    TraceParameter{"chosen", 2, 1, 1e3, "experts that each token chooses"},
    TraceParameter{"tokens", 32, 1, 1e6, "tokens in a GPU's batch"},
    TraceParameter{"steps", 500, 1, 1e8, "steps"},
    TraceParameter{"step_us", 20'000, 1, 1e9, "time per step"},
    TraceParameter{"skew", 1, 0, 4, "exponent of Zipf's law; 0: uniform", false},
    TraceParameter{"alike", 0.3, 0, 1, "share of choices by global popularity", false},
    TraceParameter{"drift_steps", 50, 1, 1e8, "steps between drifts"},
    TraceParameter{"drift", 0.1, 0, 1, "share of the popular half that a drift replaces", false}};

}  // namespace vma
