#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// The training of a model that is divided among GPUs, one stage each, as a closed loop.
///
/// Each stage has "layers" layers. In an iteration, each layer of each stage computes each
/// microbatch forward, then each backward; the gradients of a stage begin when it has computed all
/// microbatches forward. Every step is a task after the previous one on its stage. The first layer
/// of a stage also waits for the stage before it, and backward the last layer for the stage after
/// it. Forward, a layer reads its weights and the activations of the layer before, perhaps on
/// another GPU, and writes its own. Backward, which takes twice as long, it reads weights and its
/// activations, turns those of the layer before into their gradients, and frees its own. At the end
/// of an iteration each layer changes its weights. A mark begins each iteration. Each step takes
/// longer by a random share of up to "jitter".
///
/// With "hints", each step announces when its layer's weights are used next, and each step forward
/// when the activations that it reads are needed again. The stage counts its own steps until then,
/// without jitter and without waiting for other stages.
void generate_pipeline(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array pipeline_parameters{
    TraceParameter{"stages", 4, 1, 256, "GPUs, one stage each"},
    TraceParameter{"microbatches", 8, 1, 256, "parts of the batch of an iteration"},
    TraceParameter{"layers", 4, 1, 100, "layers of each stage"},
    TraceParameter{"iterations", 10, 1, 1e6, "how often the weights are changed"},
    TraceParameter{"activation_bytes", 64 << 20, 1, 1e13, "activations of a layer a microbatch"},
    TraceParameter{"weight_bytes", 256 << 20, 1, 1e13, "weights of a layer"},
    TraceParameter{"compute_us", 2000, 0, 1e9, "time of a layer for a microbatch, forward"},
    TraceParameter{"jitter", 0.1, 0, 10, "how much longer a step may take, as a share", false},
    hints_parameter};

}  // namespace vma
