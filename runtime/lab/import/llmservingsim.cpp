#include "lab/import/llmservingsim.hpp"

#include "lab/import/input_lines.hpp"

#include <cmath>
#include <optional>

namespace vma {

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

}  // namespace vma
