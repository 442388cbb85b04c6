#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Requests of a real vLLM run, as published with LLMServingSim's benchmarks: JSON lines with
/// "input_toks", "output_toks", "queued_ts", "scheduled_ts", "first_token_ts" and "last_token_ts"
/// in seconds.
///
/// Each request is a `KvRequest` with the measured times. Its line number is its number.
/// It starts when it was scheduled, since it has no cache before that. Time 0 is when the first
/// request was queued. Requests may be scheduled in any order, so all events are held until the end
/// of the file: such files are short.
void convert_llmservingsim(const ConvertInput& input, EventOrder& order);

inline constexpr std::array llmservingsim_parameters{
    requests_parameter, token_bytes_parameter,  closed_parameter, grow_parameter,
    weights_parameter,  serving_gpus_parameter, hints_parameter};

}  // namespace vma
