#pragma once

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"

#include <array>

namespace vma {

/// Serving of a language model. Each GPU has a copy of the weights, cut into "weight_objects"
/// objects tagged "weights", object 0 and on. Requests arrive as a Poisson process, with prompts
/// and outputs of log-normal length, and go to the GPU with the fewest requests, which works on all
/// of its requests at once. A request is a task; its cache is an object tagged "kv" of prompt and
/// output tokens, from its arrival to its last token.
///
/// Time goes in ticks of "tick_ms". A request begins and ends with a tick. In each tick a GPU that
/// has requests reads all of its weights as often as it makes tokens ("token_us" each), and the
/// part of each cache that has tokens as often; it writes what is new of each cache: the prompt in
/// the first tick, then the tokens that it made. The rate of arrivals goes up and down by "swing"
/// of the average, with a period of "swing_s".
void generate_serving(const TraceValues& values, TraceRandom& random, EventOrder& order);

inline constexpr std::array serving_parameters{
    gpus_parameter,
    length_parameter,
    TraceParameter{"weight_bytes", 16e9, 1, 1e13, "bytes of one copy of the weights"},
    TraceParameter{"weight_objects", 32, 1, 1e5, "objects of one copy"},
    TraceParameter{"token_bytes", 131'072, 1, 1e9, "KV cache of one token"},
    TraceParameter{"requests_s", 20, 1e-3, 1e6, "requests a second, on average", false},
    TraceParameter{"prompt_tokens", 1000, 1, 1e7, "median length of a prompt"},
    TraceParameter{"output_tokens", 200, 1, 1e7, "median length of an output"},
    TraceParameter{"sigma", 0.8, 0, 3, "of both lengths' logarithms", false},
    TraceParameter{"token_us", 20'000, 1, 1e7, "time an output token"},
    TraceParameter{"tick_ms", 200, 1, 1e7, "time from an access to the next of one object"},
    TraceParameter{"swing", 0.5, 0, 1, "how far the rate goes up and down, of the average", false},
    TraceParameter{"swing_s", 30, 1e-3, 1e7, "time from a peak of the rate to the next", false}};

}  // namespace vma
