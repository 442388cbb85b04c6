#include "lab/import/mooncake.hpp"

#include "lab/import/input_lines.hpp"

#include <boost/json/value_to.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t block_tokens = 512;

struct Request {
  Time time{0};
  std::uint64_t input_tokens = 0, output_tokens = 0;
  std::vector<std::uint64_t> blocks;
};

Request read_request(JsonReader& json, Time before) {
  constexpr std::int64_t milliseconds_max = 1'000'000'000'000;
  Request request;
  request.time = std::chrono::milliseconds(json.integer("timestamp", 0, milliseconds_max));
  request.input_tokens = static_cast<std::uint64_t>(json.integer("input_length", 1, tokens_max));
  request.output_tokens = static_cast<std::uint64_t>(json.integer("output_length", 0, tokens_max));
  for (const boost::json::value& id : json.list("hash_ids")) {
    boost::system::error_code failed;
    const auto number = id.is_number() ? id.to_number<std::uint64_t>(failed) : 0;
    if (!id.is_number() || failed)
      refuse_line("hash_ids: contains something other than a whole number");
    request.blocks.push_back(number);
  }
  const std::uint64_t expected = (request.input_tokens + block_tokens - 1) / block_tokens;
  if (request.blocks.size() != expected) {
    refuse_line(fmt::format("hash_ids: are {}, and {} tokens have {}", request.blocks.size(),
                            request.input_tokens, expected));
  }
  if (request.time < before) refuse_line("is earlier than the request above it");
  return request;
}

/// The cached blocks and their expiry times.
class Cache {
 public:
  Cache(EventOrder& order, Time keep) : order_(&order), keep_(keep) {}

  /// Returns whether the block was cached already. The use lasts until `end`.
  bool use(std::uint64_t block, Time end) {
    const auto [found, is_new] = used_until_.try_emplace(block, end);
    found->second = std::max(found->second, end);
    if (is_new && keep_ > Time(0)) expiries_.emplace(end + keep_, block);
    return !is_new;
  }

  /// Frees the blocks that have expired at `now`.
  void expire(Time now) {
    while (!expiries_.empty() && expiries_.top().first <= now) {
      const auto [time, block] = expiries_.top();
      expiries_.pop();
      const auto found = used_until_.find(block);
      if (found->second + keep_ > time) {  // It was used again in the meantime.
        expiries_.emplace(found->second + keep_, block);
        continue;
      }
      used_until_.erase(found);
      TraceEvent event;
      event.time = time;
      event.object = block;
      event.kind = TraceEventKind::free;
      order_->add(event);
    }
  }

 private:
  using Expiry = std::pair<Time, std::uint64_t>;

  EventOrder* order_;
  Time keep_;
  std::unordered_map<std::uint64_t, Time> used_until_;
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
};

void add_block(EventOrder& order, TraceEvent event, bool cached, std::uint64_t block_bytes,
               std::uint64_t output_tokens, Time decode) {
  if (!cached) {
    TraceEvent allocation;
    allocation.time = event.time;
    allocation.object = event.object;
    allocation.bytes = block_bytes;
    allocation.kind = TraceEventKind::allocation;
    allocation.tag = order.intern("kv");
    order.add(allocation);
  }
  event.use = cached ? UseKind::read : UseKind::write;
  order.add(event);
  if (output_tokens == 0) return;
  event.use = UseKind::read;
  event.passes = static_cast<float>(output_tokens);
  event.duration = decode;
  order.add(event);
}

}  // namespace

void convert_mooncake(const ConvertInput& input, EventOrder& order) {
  const std::uint64_t token_bytes = input.values.whole("token_bytes");
  const Time token_time = std::chrono::microseconds(input.values.whole("token_us"));
  Cache cache(order, std::chrono::seconds(input.values.whole("keep_s")));
  Time before{0};
  std::uint32_t number = 0;
  for_each_json_line(input.path, input.bad, [&](JsonReader& json) {
    ++number;
    const Request request = read_request(json, before);
    before = request.time;
    cache.expire(request.time);
    order.advance(request.time);
    const Time decode = token_time * static_cast<std::int64_t>(request.output_tokens);
    TraceEvent event;
    event.time = request.time;
    event.task = number;
    std::uint64_t tokens_left = request.input_tokens;
    for (const std::uint64_t block : request.blocks) {
      const std::uint64_t tokens = std::min(tokens_left, block_tokens);
      tokens_left -= tokens;
      event.object = block;
      event.bytes = tokens * token_bytes;
      const bool cached = cache.use(block, request.time + decode);
      add_block(order, event, cached, block_tokens * token_bytes, request.output_tokens, decode);
    }
  });
  cache.expire(Time::max());
}

}  // namespace vma
