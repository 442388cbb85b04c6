#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Requests of a real run of vLLM, as LLMServingSim's benchmarks keep them: JSON lines with
/// "input_toks", "output_toks", "queued_ts", "scheduled_ts", "first_token_ts" and "last_token_ts"
/// in seconds.
///
/// Each request is a `KvRequest`, task and object of the number of its line, with the times that
/// were measured: it starts when it was scheduled, for until then it has no cache. The first one
/// was queued at 0. Requests may be scheduled in any order, so all are held before the first is
/// handed on: files of this kind are short.
void convert_llmservingsim(const ConvertInput& input, EventOrder& order);

inline constexpr std::array llmservingsim_parameters{token_bytes_parameter};

}  // namespace vma
