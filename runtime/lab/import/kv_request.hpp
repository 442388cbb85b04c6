#pragma once

#include "lab/generate/trace_parameters.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <cstdint>

namespace vma {

/// One request to a language model with its own KV cache.
struct KvRequest {
  Time start{0};        ///< Processes the prompt from here to `first_token`,
  Time first_token{0};  ///< then generates the output tokens one by one until `end`.
  Time end{0};
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  std::uint32_t task = 0;
};

constexpr std::uint64_t tokens_max = 100'000'000;  ///< Per request; a larger number is a mistake in
                                                   ///< the file.

/// Adds the request's events. Its cache is one object for the prompt and output tokens, tagged
/// "kv", that lives from `start` to `end`. The prompt's part is written once, from `start` to
/// `first_token`. Both of the following last from `first_token` to `end`. Each output token reads
/// the cache as it is at that time: o tokens after a prompt of c read o*c + o*(o-1)/2 tokens, which
/// is one access to the whole cache with as many passes as that takes. The output's part is written
/// once. Requires: the request has tokens.
void add_request(EventOrder& order, const KvRequest& request, std::uint64_t token_bytes);

/// Sets the times from the assumed speed of the model: "prefill_tokens_s" and "token_us".
void set_times(KvRequest& request, const TraceValues& values);

inline constexpr TraceParameter token_bytes_parameter{
    "token_bytes", 131'072, 1, 1e9, "KV cache size per token (Llama-3-8B in bf16)"};
inline constexpr TraceParameter token_time_parameter{"token_us", 30'000, 0, 1e7,
                                                     "time per output token"};
inline constexpr TraceParameter prefill_parameter{
    "prefill_tokens_s", 0, 0, 1e9, "prompt tokens processed per second; 0: all at once"};

}  // namespace vma
