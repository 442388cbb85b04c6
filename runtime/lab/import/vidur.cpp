#include "lab/import/trace_formats.hpp"

#include "lab/generate/trace_random.hpp"
#include "lab/import/input_lines.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <array>
#include <string_view>

namespace vma {
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
