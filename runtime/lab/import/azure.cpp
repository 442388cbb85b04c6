#include "lab/import/trace_formats.hpp"

#include "lab/import/input_lines.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <chrono>
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

}  // namespace vma
