#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Request lengths as processed by Vidur, one request per line:
/// num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio.
///
/// Each request is a `KvRequest`. The file has no times: requests arrive at random with exponential
/// gaps that depend on the seed, "requests_s" per second on average.
void convert_vidur(const ConvertInput& input, EventOrder& order);

inline constexpr std::array vidur_parameters{
    requests_parameter,
    token_bytes_parameter,
    token_time_parameter,
    prefill_parameter,
    closed_parameter,
    grow_parameter,
    weights_parameter,
    serving_gpus_parameter,
    hints_parameter,
    TraceParameter{"requests_s", 1, 1e-3, 1e6, "average requests per second", false}};

}  // namespace vma
