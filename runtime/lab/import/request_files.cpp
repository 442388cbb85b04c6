#include "lab/import/trace_formats.hpp"

#include "lab/generate/trace_random.hpp"
#include "lab/import/input_lines.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>

namespace vma {
namespace {

constexpr std::array azure_parameters{
    requests_parameter, token_bytes_parameter,  token_time_parameter,
    prefill_parameter,  closed_parameter,       grow_parameter,
    weights_parameter,  serving_gpus_parameter, hints_parameter};

constexpr std::string_view header = "TIMESTAMP,ContextTokens,GeneratedTokens";

/// Format: "2023-11-16 18:15:46.6805900", with one to nine fractional digits, or none.
Time time_of(std::string_view text) {
  constexpr std::string_view shape = "0000-00-00 00:00:00";
  const auto part = [&](std::size_t from, std::size_t size, std::uint64_t least,
                        std::uint64_t most) {
    return static_cast<int>(whole_number(text.substr(from, size), "TIMESTAMP", least, most));
  };
  bool fits = text.size() >= shape.size() && text.size() <= shape.size() + 10;
  for (std::size_t at = 0; fits && at < shape.size(); ++at) {
    if (shape[at] != '0') fits = text[at] == shape[at];
  }
  if (!fits) refuse_line("TIMESTAMP: is not a time");
  const std::chrono::year_month_day day(
      std::chrono::year(part(0, 4, 1970, 2200)),
      std::chrono::month(static_cast<unsigned>(part(5, 2, 1, 12))),
      std::chrono::day(static_cast<unsigned>(part(8, 2, 1, 31))));
  if (!day.ok()) refuse_line("TIMESTAMP: is not a date");
  Time time = std::chrono::sys_days(day).time_since_epoch() +
              std::chrono::hours(part(11, 2, 0, 23)) + std::chrono::minutes(part(14, 2, 0, 59)) +
              std::chrono::seconds(part(17, 2, 0, 59));
  std::string_view digits = text.substr(shape.size());
  if (digits.empty()) return time;
  if (digits.front() != '.' || digits.size() == 1) refuse_line("TIMESTAMP: is not a time");
  digits.remove_prefix(1);
  std::uint64_t fraction = whole_number(digits, "TIMESTAMP", 0, 999'999'999);
  for (std::size_t digit = digits.size(); digit < 9; ++digit) fraction *= 10;
  return time + Time(static_cast<std::int64_t>(fraction));
}

/// Azure's LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens, one request per line.
///
/// Each request is a `KvRequest`. Its line number, not counting the header, is its number.
/// It starts at its time stamp, relative to the first request. Requests share nothing, since the
/// file does not say what they have in common. A request earlier than the previous one is a bad
/// line.
void convert_azure(const ConvertInput& input, EventOrder& order) {
  KvRequests requests(order, input.values);
  std::optional<Time> first;
  Time before{0};
  std::uint32_t number = 0;
  for_each_csv_line(
      input.path, header, input.bad, input.values.whole("requests"), [&](const CsvFields& fields) {
        ++number;
        const Time time = time_of(fields[0]);
        KvRequest request;
        request.number = number;
        request.prompt_tokens = whole_number(fields[1], "ContextTokens", 0, tokens_max);
        request.output_tokens = whole_number(fields[2], "GeneratedTokens", 0, tokens_max);
        if (request.prompt_tokens + request.output_tokens == 0) refuse_line("has no tokens");
        request.start = time - first.value_or(time);
        if (request.start < before) refuse_line("is earlier than the request above it");
        if (!first) first = time;
        before = request.start;
        set_times(request, input.values);
        order.advance(request.start);
        requests.add(request);
      });
}

}  // namespace

TraceFormat azure_format() {
  return {"azure",
          "Azure LLM inference requests: AzureLLMInferenceTrace_*.csv",
          "Azure/AzurePublicDataset (Patel et al., Splitwise, ISCA 2024)",
          "CC-BY-4.0",
          azure_parameters,
          convert_azure};
}

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

namespace {

constexpr std::array vidur_parameters{
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

/// Request lengths as processed by Vidur, one request per line:
/// num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio.
///
/// Each request is a `KvRequest`. The file has no times: requests arrive at random with exponential
/// gaps that depend on the seed, "requests_s" per second on average.
void convert_vidur(const ConvertInput& input, EventOrder& order) {
  constexpr std::string_view header =
      "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio";
  KvRequests requests(order, input.values);
  const double gap_ns = 1e9 / input.values["requests_s"];
  TraceRandom random(input.seed);
  Time now{0};
  std::uint32_t number = 0;
  for_each_csv_line(
      input.path, header, input.bad, input.values.whole("requests"), [&](const CsvFields& fields) {
        ++number;
        KvRequest request;
        request.number = number;
        request.prompt_tokens = whole_number(fields[0], "num_prefill_tokens", 0, tokens_max);
        request.output_tokens = whole_number(fields[1], "num_decode_tokens", 0, tokens_max);
        const std::uint64_t tokens = request.prompt_tokens + request.output_tokens;
        if (tokens == 0) refuse_line("has no tokens");
        whole_number(fields[2], "num_total_tokens", tokens, tokens);
        request.start = now;
        set_times(request, input.values);
        order.advance(now);
        requests.add(request);
        now += random.exponential(gap_ns);
      });
}

}  // namespace

TraceFormat vidur_format() {
  return {"vidur",           "request lengths: *_lengths.csv",
          "microsoft/vidur", "MIT",
          vidur_parameters,  convert_vidur};
}

}  // namespace vma
