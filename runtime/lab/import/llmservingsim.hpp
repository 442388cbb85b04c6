#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Requests of a real run of vLLM, as stored by LLMServingSim's benchmarks: JSON lines with
/// "input_toks", "output_toks", "queued_ts", "scheduled_ts", "first_token_ts" and "last_token_ts"
/// in seconds.
///
/// Each request is a `KvRequest`, with the number of its line as task and object and the measured
/// times: it starts when it was scheduled, since it has no cache before. The first one was queued
/// at 0. Requests may be scheduled in any order, so all are held until the first is passed on:
/// files of this kind are short.
void convert_llmservingsim(const ConvertInput& input, EventOrder& order);

inline constexpr std::array llmservingsim_parameters{token_bytes_parameter};

}  // namespace vma
