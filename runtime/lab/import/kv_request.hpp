#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <cstdint>

namespace vma {

/// One request to a language model with its own KV cache.
struct KvRequest {
  Time start{0};        ///< The prompt is processed from here to `first_token`,
  Time first_token{0};  ///< and from here to `end` one token after the other is made.
  Time end{0};
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  std::uint32_t task = 0;
};

constexpr std::uint64_t tokens_max = 100'000'000;  ///< In one request: more is a mistake.

/// Adds the request's events. Its cache is one object of prompt and output tokens, tagged "kv",
/// that lives from `start` to `end`. The prompt's part is written once, from `start` to
/// `first_token`. Each output token reads the cache in its current state: o tokens after a prompt
/// of c read o*c + o*(o-1)/2 tokens, as one access with that many passes over all of it; and the
/// output's part is written, both from `first_token` to `end`. Requires: it has tokens.
void add_request(EventOrder& order, const KvRequest& request, std::uint64_t token_bytes);

/// Sets its times from the assumptions on the model: "prefill_tokens_s" and "token_us".
void set_times(KvRequest& request, const TraceValues& values);

inline constexpr TraceParameter token_bytes_parameter{
    "token_bytes", 131'072, 1, 1e9, "KV cache size per token (Llama-3-8B in bf16)"};
inline constexpr TraceParameter token_time_parameter{"token_us", 30'000, 0, 1e7,
                                                     "time per output token"};
inline constexpr TraceParameter prefill_parameter{
    "prefill_tokens_s", 0, 0, 1e9, "prompt tokens processed per second; 0: all at once"};

}  // namespace vma
