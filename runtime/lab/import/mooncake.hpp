#pragma once

#include "lab/import/convert_input.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>

namespace vma {

/// Mooncake's request traces: JSON lines with "timestamp" (milliseconds), "input_length",
/// "output_length" (tokens) and "hash_ids", one per 512 tokens of the prompt. Equal ids mean equal
/// prefixes, which share their KV cache.
///
/// A block of 512 tokens is an object with its id as the number, tagged "kv"; a request is a task
/// with the number of its line. At the time stamp, blocks of the prompt that are not cached are
/// allocated and written once; cached ones are read once. From then on every output token reads all
/// blocks of the prompt: each block gets one access with one pass per output token, which lasts
/// "token_us" per output token. Of the prompt's last block only the part with tokens is used. A
/// block is freed "keep_s" after its last use; if it is requested later, it is allocated and
/// written again. The cache of the output tokens has no ids and is ignored. A request earlier than
/// the previous one is a bad line.
void convert_mooncake(const ConvertInput& input, EventOrder& order);

inline constexpr std::array mooncake_parameters{
    token_bytes_parameter, token_time_parameter,
    TraceParameter{"keep_s", 300, 0, 1e6, "how long an unused block is kept; 0: forever"}};

}  // namespace vma
