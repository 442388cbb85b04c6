#include "lab/import/kv_request.hpp"

namespace vma {

void set_times(KvRequest& request, const TraceValues& values) {
  const double rate = values["prefill_tokens_s"];
  const auto prompt = static_cast<double>(request.prompt_tokens);
  const double prefill_ns = rate > 0 ? prompt / rate * 1e9 : 0;
  request.first_token = request.start + Time(static_cast<std::int64_t>(prefill_ns));
  request.end =
      request.first_token +
      Time(static_cast<std::int64_t>(request.output_tokens * values.whole("token_us")) * 1000);
}

void add_request(EventOrder& order, const KvRequest& request, std::uint64_t token_bytes) {
  const std::uint64_t tokens = request.prompt_tokens + request.output_tokens;
  const std::uint64_t prompt_bytes = request.prompt_tokens * token_bytes;
  TraceEvent event;
  event.time = request.start;
  event.object = request.task;
  event.bytes = tokens * token_bytes;
  event.kind = TraceEventKind::allocation;
  event.tag = order.intern("kv");
  order.add(event);
  event.tag = TagId{};
  event.kind = TraceEventKind::access;
  event.task = request.task;
  if (request.prompt_tokens > 0) {
    event.bytes = prompt_bytes;
    event.use = UseKind::write;
    event.duration = request.first_token - request.start;
    order.add(event);
  }
  if (request.output_tokens > 0) {
    const auto output = static_cast<double>(request.output_tokens);
    const auto prompt = static_cast<double>(request.prompt_tokens);
    const double tokens_read = output * prompt + output * (output - 1) / 2;
    event.time = request.first_token;
    event.duration = request.end - request.first_token;
    if (tokens_read > 0) {
      event.bytes = tokens * token_bytes;
      event.use = UseKind::read;
      event.passes = static_cast<float>(tokens_read / static_cast<double>(tokens));
      order.add(event);
    }
    event.passes = 1;
    event.offset = prompt_bytes;
    event.bytes = request.output_tokens * token_bytes;
    event.use = UseKind::write;
    order.add(event);
  }
  TraceEvent free;
  free.time = request.end;
  free.object = request.task;
  free.kind = TraceEventKind::free;
  order.add(free);
}

}  // namespace vma
