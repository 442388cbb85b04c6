#include "lab/import/trace_formats.hpp"

#include "lab/import/input_lines.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <cmath>
#include <optional>

namespace vma {
namespace {

constexpr std::array llmservingsim_parameters{
    requests_parameter, token_bytes_parameter,  closed_parameter, grow_parameter,
    weights_parameter,  serving_gpus_parameter, hints_parameter};

/// Requests of a real vLLM run, as published with LLMServingSim's benchmarks: JSON lines with
/// "input_toks", "output_toks", "queued_ts", "scheduled_ts", "first_token_ts" and "last_token_ts"
/// in seconds.
///
/// Each request is a `KvRequest` with the measured times. Its line number is its number.
/// It starts when it was scheduled, since it has no cache before that. Time 0 is when the first
/// request was queued. Requests may be scheduled in any order, so all events are held until the end
/// of the file: such files are short.
void convert_llmservingsim(const ConvertInput& input, EventOrder& order) {
  constexpr double seconds_max = 1e9;
  KvRequests requests(order, input.values);
  std::optional<double> first;
  std::uint32_t number = 0;
  for_each_json_line(input.path, input.bad, input.values.whole("requests"), [&](JsonReader& json) {
    ++number;
    KvRequest request;
    request.number = number;
    request.prompt_tokens = static_cast<std::uint64_t>(json.integer("input_toks", 0, tokens_max));
    request.output_tokens = static_cast<std::uint64_t>(json.integer("output_toks", 0, tokens_max));
    const double queued = json.number("queued_ts", 0, seconds_max);
    const double scheduled = json.number("scheduled_ts", queued, seconds_max);
    const double first_token = json.number("first_token_ts", scheduled, seconds_max);
    const double last_token = json.number("last_token_ts", first_token, seconds_max);
    if (request.prompt_tokens + request.output_tokens == 0) refuse_line("has no tokens");
    const double begin = first.value_or(queued);
    if (scheduled < begin) refuse_line("was scheduled before the first request was queued");
    first = begin;
    const auto since = [begin](double seconds) {
      return Time(std::llround((seconds - begin) * 1e9));
    };
    request.start = since(scheduled);
    request.first_token = since(first_token);
    request.end = since(last_token);
    requests.add(request);
  });
}

}  // namespace

TraceFormat llmservingsim_format() {
  return {"llmservingsim",
          "requests of a run of vLLM: *.vllm_requests.jsonl",
          "casys-kaist/LLMServingSim",
          "MIT",
          llmservingsim_parameters,
          convert_llmservingsim};
}

}  // namespace vma
