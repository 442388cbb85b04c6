#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// Serving a language model. Each GPU has a copy of the weights, split into "weight_objects"
/// objects tagged "weights", numbered from 0. Requests arrive as a Poisson process, with prompts
/// and outputs of log-normal length. Each goes to the GPU with the fewest requests, which processes
/// all of its requests at once. A request is a task; its cache is an object tagged "kv" for its
/// prompt and output tokens that lives from its arrival to its last token.
///
/// Time advances in ticks of "tick_ms"; requests begin and end at ticks. In each tick a GPU with
/// requests makes one token per "token_us". For each token it reads all of its weights, and the
/// filled part of each cache. In each cache it writes the new part: the prompt in the first tick,
/// and the tokens made in this tick. In a closed loop, a tick of a GPU is one task after the
/// previous one, whose steps all its requests share, one for each token: a slow step delays all
/// later ones, but who shares it is as in the open loop. With "hints", the first tick of a request
/// announces how often its cache will be read: as often as the outputs that have ended were long,
/// on average. The arrival rate oscillates around its average by a share of up to "swing", with a
/// period of "swing_s".
void generate_serving(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array serving_parameters{
    gpus_parameter,
    length_parameter,
    TraceParameter{"weight_bytes", 16e9, 1, 1e13, "size of one copy of the weights"},
    TraceParameter{"weight_objects", 32, 1, 1e5, "objects per copy"},
    TraceParameter{"token_bytes", 131'072, 1, 1e9, "KV cache size per token"},
    TraceParameter{"requests_s", 20, 1e-3, 1e6, "average requests per second", false},
    TraceParameter{"prompt_tokens", 1000, 1, 1e7, "median length of a prompt"},
    TraceParameter{"output_tokens", 200, 1, 1e7, "median length of an output"},
    TraceParameter{"sigma", 0.8, 0, 3, "standard deviation of the logarithms of both lengths",
                   false},
    TraceParameter{"token_us", 20'000, 1, 1e7, "time per output token"},
    TraceParameter{"tick_ms", 200, 1, 1e7, "time between accesses to one object"},
    TraceParameter{"swing", 0.5, 0, 1, "amplitude of the rate, as a share of the average", false},
    TraceParameter{"swing_s", 30, 1e-3, 1e7, "time between peaks of the rate", false},
    TraceParameter{"closed", 0, 0, 1,
                   "1: a step waits for the one before; 0: open loop, accesses at fixed times"},
    hints_parameter};

}  // namespace vma
