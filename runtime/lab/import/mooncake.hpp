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
/// A block of 512 tokens is an object, tagged "kv". At the time stamp of a request, blocks of the
/// prompt that are not cached are allocated and written once; cached ones are read once. This takes
/// as long as the tokens that are not cached take at "prefill_tokens_s". Then every output token
/// reads all blocks of the prompt, over "token_us". Of the prompt's last block only the part with
/// tokens is used. A block is freed "keep_s" after its last use; if it is requested later, it is
/// allocated and written again. The cache of the output tokens has no ids and is ignored. A request
/// earlier than the previous one is a bad line.
///
/// In a closed loop, a request has two tasks, and is their `request` with the number of its line.
/// The first starts at the time stamp, and after the tasks that write the blocks that it reads. The
/// second follows it and is repeated for each output token. Objects are numbered from 0; a block
/// that is allocated again is another object. In an open loop, a request is one task, a block is an
/// object with its id as the number, and all output tokens together read it in one access.
///
/// With "weight_bytes", requests read the weights of a `ServedModel`.
void convert_mooncake(const ConvertInput& input, EventOrder& order);

inline constexpr std::array mooncake_parameters{
    requests_parameter,
    token_bytes_parameter,
    token_time_parameter,
    prefill_parameter,
    closed_parameter,
    weights_parameter,
    serving_gpus_parameter,
    hints_parameter,
    TraceParameter{"keep_s", 300, 0, 1e6, "how long an unused block is kept; 0: forever"}};

}  // namespace vma
