#include "lab/import/vidur.hpp"

#include "lab/generate/trace_random.hpp"
#include "lab/import/input_lines.hpp"

#include <string_view>

namespace vma {

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

}  // namespace vma
