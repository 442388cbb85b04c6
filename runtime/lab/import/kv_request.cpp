#include "lab/import/kv_request.hpp"

#include <vma/place.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t first_weights = std::uint64_t{1} << 62;  // No file has such numbers.

/// The objects of growing caches have numbers from here on. Other objects have those of requests.
constexpr std::uint64_t first_growth = std::uint64_t{1} << 33;

/// The tokens that all output tokens together read.
double tokens_read(const KvRequest& request) {
  const auto output = static_cast<double>(request.output_tokens);
  return output * static_cast<double>(request.prompt_tokens) + output * (output - 1) / 2;
}

/// Requires: there are output tokens.
Time token_time(const KvRequest& request) {
  return (request.end - request.first_token) / static_cast<std::int64_t>(request.output_tokens);
}

}  // namespace

ServedModel::ServedModel(EventOrder& order, const TraceValues& values)
    : weight_bytes_(values.whole("weight_bytes")),
      ends_(weight_bytes_ > 0 ? values.whole("gpus") : 0) {
  for (std::size_t gpu = 0; gpu < ends_.size(); ++gpu) {
    TraceEvent event;
    event.kind = TraceEventKind::allocation;
    event.object = first_weights + gpu;
    event.bytes = weight_bytes_;
    event.tag = order.intern("weights");
    order.add(event);
  }
}

ServedModel::Server ServedModel::serve(Time start, Time end) {
  if (ends_.empty()) return {};
  for (std::vector<Time>& ends : ends_) std::erase_if(ends, [&](Time one) { return one <= start; });
  const auto least = std::ranges::min_element(ends_, {}, &std::vector<Time>::size);
  least->push_back(end);
  const auto number = static_cast<std::size_t>(least - ends_.begin());
  return {TracePlace(gpu(static_cast<int>(number))), first_weights + number, least->size()};
}

std::optional<TraceEvent> ServedModel::read(const Server& server, double passes) const {
  if (weight_bytes_ == 0) return std::nullopt;
  TraceEvent event;
  event.object = server.weights;
  event.bytes = weight_bytes_;
  event.passes = static_cast<float>(passes);
  event.at = server.at;
  return event;
}

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
      model_(order, values),
      token_bytes_(values.whole("token_bytes")),
      grow_tokens_(values.whole("grow_tokens")),
      closed_(values.whole("closed") == 1),
      hints_(values.whole("hints") == 1) {}

void KvRequests::add(const KvRequest& request) {
  const ServedModel::Server server = model_.serve(request.start, request.end);
  if (!closed_) return add_open(request, server);
  if (grow_tokens_ > 0) return add_growing(request, server);
  add_closed(request, server);
}

TraceEvent KvRequests::allocation(std::uint64_t object, std::uint64_t tokens, Time time) const {
  TraceEvent event;
  event.kind = TraceEventKind::allocation;
  event.time = time;
  event.object = object;
  event.bytes = tokens * token_bytes_;
  event.tag = order_->intern("kv");
  return event;
}

TraceEvent KvRequests::free(std::uint64_t object) {
  TraceEvent event;
  event.kind = TraceEventKind::free;
  event.object = object;
  return event;
}

DeclaredTask KvRequests::prefill(const KvRequest& request, const ServedModel::Server& server) {
  TraceEvent task = task_event(request.first_token - request.start, server.at);
  task.time = request.start;
  task.object = request.number;
  const DeclaredTask declared = tasks_.declare(task);
  if (const auto weights = model_.read(server, 1)) tasks_.access(*weights);
  TraceEvent access;
  access.object = request.number;
  access.bytes = request.prompt_tokens * token_bytes_;
  access.use = UseKind::write;
  tasks_.access(access);
  return declared;
}

/// The steps of `tokens` output tokens. Their accesses, but for that of the weights, follow.
DeclaredTask KvRequests::decode(const KvRequest& request, const ServedModel::Server& server,
                                std::uint64_t tokens, const DeclaredTask& after) {
  TraceEvent task = task_event(token_time(request), server.at);
  task.time = request.first_token;
  task.object = request.number;
  task.bytes = tokens;
  const DeclaredTask declared = tasks_.declare(task, {&after, 1});
  if (const auto weights = model_.read(server, 1 / static_cast<double>(server.batch)))
    tasks_.access(*weights);
  return declared;
}

/// The output's task, declared last, announces that its tokens will read the whole cache.
void KvRequests::announce(const KvRequest& request, std::uint64_t tokens) {
  if (std::optional<TraceEvent> hint = forecast_.hint(request.start, token_time(request))) {
    hint->object = request.number;
    hint->bytes = tokens * token_bytes_;
    tasks_.hint(*hint);
  }
  forecast_.add(request.end, request.output_tokens);
}

/// The same of a growing cache, for the tokens for which there is memory.
void KvRequests::announce(const KvRequest& request, std::span<const TraceEvent> cache) {
  TraceEvent hint = OutputForecast::reads(static_cast<double>(grow_tokens_), token_time(request));
  for (const TraceEvent& part : cache) {
    hint.object = part.object;
    hint.bytes = part.bytes;
    tasks_.hint(hint);
  }
}

void KvRequests::add_closed(const KvRequest& request, const ServedModel::Server& server) {
  const std::uint64_t tokens = request.prompt_tokens + request.output_tokens;
  order_->add(allocation(request.number, tokens, request.start));
  DeclaredTask last;
  if (request.prompt_tokens > 0) last = prefill(request, server);
  if (request.output_tokens > 0) {
    last = decode(request, server, request.output_tokens, last);
    const auto steps = static_cast<double>(request.output_tokens);
    TraceEvent access;
    access.object = request.number;
    const double read = tokens_read(request);
    if (read > 0) {
      access.bytes = tokens * token_bytes_;
      access.passes = static_cast<float>(read / steps / static_cast<double>(tokens));
      tasks_.access(access);
    }
    access.offset = request.prompt_tokens * token_bytes_;
    access.bytes = request.output_tokens * token_bytes_;
    access.use = UseKind::write;
    access.passes = static_cast<float>(1 / steps);
    tasks_.access(access);
    if (hints_) announce(request, tokens);
  }
  tasks_.at_end(free(request.number), last);
}

void KvRequests::add_growing(const KvRequest& request, const ServedModel::Server& server) {
  std::vector<TraceEvent> cache;  // A read of each part so far.
  DeclaredTask last;
  const auto grow = [&](std::uint64_t object, std::uint64_t tokens) {
    tasks_.at_end(allocation(object, tokens, request.start), last);
    TraceEvent& read = cache.emplace_back();
    read.object = object;
    read.bytes = tokens * token_bytes_;
  };
  if (request.prompt_tokens > 0) {
    grow(request.number, request.prompt_tokens);
    last = prefill(request, server);
  }
  for (std::uint64_t made = 0; made < request.output_tokens; made += grow_tokens_) {
    const std::uint64_t tokens = std::min(grow_tokens_, request.output_tokens - made);
    grow(first_growth + growths_++, tokens);
    last = decode(request, server, tokens, last);
    const auto steps = static_cast<double>(tokens);
    // Each token reads those before it: on average (tokens - 1) / 2 of this part.
    cache.back().passes = static_cast<float>((steps - 1) / 2 / steps);
    for (const TraceEvent& read : cache)
      if (read.passes > 0) tasks_.access(read);
    TraceEvent write = cache.back();
    write.use = UseKind::write;
    write.passes = static_cast<float>(1 / steps);
    tasks_.access(write);
    if (hints_) announce(request, cache);
    cache.back().passes = 1;
  }
  for (const TraceEvent& part : cache) tasks_.at_end(free(part.object), last);
}

void KvRequests::add_open(const KvRequest& request, const ServedModel::Server& server) {
  const std::uint64_t tokens = request.prompt_tokens + request.output_tokens;
  order_->add(allocation(request.number, tokens, request.start));
  const auto read_weights = [&](Time time, Time duration, double passes) {
    std::optional<TraceEvent> weights = model_.read(server, passes);
    if (!weights) return;
    weights->time = time;
    weights->duration = duration;
    weights->task = request.number;
    order_->add(*weights);
  };
  TraceEvent event;
  event.time = request.start;
  event.object = request.number;
  event.task = request.number;
  event.at = server.at;
  if (request.prompt_tokens > 0) {
    event.bytes = request.prompt_tokens * token_bytes_;
    event.use = UseKind::write;
    event.duration = request.first_token - request.start;
    read_weights(event.time, event.duration, 1);
    order_->add(event);
  }
  if (request.output_tokens > 0) {
    event.time = request.first_token;
    event.duration = request.end - request.first_token;
    read_weights(event.time, event.duration,
                 static_cast<double>(request.output_tokens) / static_cast<double>(server.batch));
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
  TraceEvent end = free(request.number);
  end.time = request.end;
  order_->add(end);
}

}  // namespace vma
