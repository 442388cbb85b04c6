#include "lab/import/kv_request.hpp"

namespace vma {
namespace {

/// The tokens that all output tokens together read.
double tokens_read(const KvRequest& request) {
  const auto output = static_cast<double>(request.output_tokens);
  return output * static_cast<double>(request.prompt_tokens) + output * (output - 1) / 2;
}

}  // namespace

void set_times(KvRequest& request, const TraceValues& values) {
  const double rate = values["prefill_tokens_s"];
  const auto prompt = static_cast<double>(request.prompt_tokens);
  const double prefill_ns = rate > 0 ? prompt / rate * 1e9 : 0;
  request.first_token = request.start + Time(static_cast<std::int64_t>(prefill_ns));
  request.end =
      request.first_token +
      Time(static_cast<std::int64_t>(request.output_tokens * values.whole("token_us")) * 1000);
}

KvRequests::KvRequests(EventOrder& order, const TraceValues& values)
    : order_(&order),
      tasks_(order),
      token_bytes_(values.whole("token_bytes")),
      closed_(values.whole("closed") == 1) {}

void KvRequests::add(const KvRequest& request) {
  if (closed_) return add_closed(request);
  add_open(request);
}

TraceEvent KvRequests::allocation(const KvRequest& request) const {
  TraceEvent event;
  event.kind = TraceEventKind::allocation;
  event.time = request.start;
  event.object = request.number;
  event.bytes = (request.prompt_tokens + request.output_tokens) * token_bytes_;
  event.tag = order_->intern("kv");
  return event;
}

TraceEvent KvRequests::free(const KvRequest& request) const {
  TraceEvent event;
  event.kind = TraceEventKind::free;
  event.object = request.number;
  return event;
}

void KvRequests::add_closed(const KvRequest& request) {
  order_->add(allocation(request));
  const std::uint64_t tokens = request.prompt_tokens + request.output_tokens;
  TraceEvent access;
  access.object = request.number;
  DeclaredTask last;
  if (request.prompt_tokens > 0) {
    TraceEvent prefill = task_event(request.first_token - request.start);
    prefill.time = request.start;
    prefill.object = request.number;
    last = tasks_.declare(prefill);
    access.bytes = request.prompt_tokens * token_bytes_;
    access.use = UseKind::write;
    tasks_.access(access);
  }
  if (request.output_tokens > 0) {
    const auto steps = static_cast<std::int64_t>(request.output_tokens);
    TraceEvent decode = task_event((request.end - request.first_token) / steps);
    decode.time = request.first_token;
    decode.object = request.number;
    decode.bytes = request.output_tokens;
    last = tasks_.declare(decode, {&last, 1});
    const double read = tokens_read(request);
    if (read > 0) {
      access.bytes = tokens * token_bytes_;
      access.use = UseKind::read;
      access.passes =
          static_cast<float>(read / static_cast<double>(steps) / static_cast<double>(tokens));
      tasks_.access(access);
    }
    access.offset = request.prompt_tokens * token_bytes_;
    access.bytes = request.output_tokens * token_bytes_;
    access.use = UseKind::write;
    access.passes = static_cast<float>(1 / static_cast<double>(steps));
    tasks_.access(access);
  }
  tasks_.at_end(free(request), last);
}

void KvRequests::add_open(const KvRequest& request) {
  order_->add(allocation(request));
  const std::uint64_t tokens = request.prompt_tokens + request.output_tokens;
  TraceEvent event;
  event.time = request.start;
  event.object = request.number;
  event.task = request.number;
  if (request.prompt_tokens > 0) {
    event.bytes = request.prompt_tokens * token_bytes_;
    event.use = UseKind::write;
    event.duration = request.first_token - request.start;
    order_->add(event);
  }
  if (request.output_tokens > 0) {
    event.time = request.first_token;
    event.duration = request.end - request.first_token;
    const double read = tokens_read(request);
    if (read > 0) {
      event.bytes = tokens * token_bytes_;
      event.use = UseKind::read;
      event.passes = static_cast<float>(read / static_cast<double>(tokens));
      order_->add(event);
    }
    event.passes = 1;
    event.offset = request.prompt_tokens * token_bytes_;
    event.bytes = request.output_tokens * token_bytes_;
    event.use = UseKind::write;
    order_->add(event);
  }
  TraceEvent end = free(request);
  end.time = request.end;
  order_->add(end);
}

}  // namespace vma
