#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Azure's LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens, one request per line.
///
/// Each request is a `KvRequest`. Its line number, not counting the header, is its number.
/// It starts at its time stamp, relative to the first request. Requests share nothing, since the
/// file does not say what they have in common. A request earlier than the previous one is a bad
/// line.
void convert_azure(const ConvertInput& input, EventOrder& order);

inline constexpr std::array azure_parameters{
    requests_parameter, token_bytes_parameter,  token_time_parameter,
    prefill_parameter,  closed_parameter,       grow_parameter,
    weights_parameter,  serving_gpus_parameter, hints_parameter};

}  // namespace vma
