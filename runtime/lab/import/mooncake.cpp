#include "lab/import/trace_formats.hpp"

#include "lab/generate/output_forecast.hpp"
#include "lab/import/input_lines.hpp"
#include "lab/import/kv_request.hpp"
#include "lab/trace/event_order.hpp"

#include <boost/json/value_to.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::array mooncake_parameters{
    requests_parameter,
    token_bytes_parameter,
    token_time_parameter,
    prefill_parameter,
    closed_parameter,
    weights_parameter,
    serving_gpus_parameter,
    hints_parameter,
    TraceParameter{"keep_s", 300, 0, 1e6, "how long an unused block is kept; 0: forever"}};

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

/// A block of the cache.
struct Block {
  std::uint64_t object = 0;
  Time used_until{0};
  DeclaredTask writer, last;  ///< In a closed loop; `last` is the one of its users that ends last.
};

/// The cached blocks and their expiry times.
class Cache {
 public:
  Cache(Time keep, std::function<void(Time, const Block&)> free)
      : keep_(keep), free_(std::move(free)) {}

  /// Returns null if the block is not cached.
  Block* find(std::uint64_t id) {
    const auto found = blocks_.find(id);
    return found != blocks_.end() ? &found->second : nullptr;
  }
  /// The block is used until `end`, and cached from now on.
  Block& use(std::uint64_t id, Time end) {
    const auto [found, is_new] = blocks_.try_emplace(id);
    found->second.used_until = std::max(found->second.used_until, end);
    if (is_new && keep_ > Time(0)) expiries_.emplace(end + keep_, id);
    return found->second;
  }

  /// Frees the blocks that have expired at `now`.
  void expire(Time now) {
    while (!expiries_.empty() && expiries_.top().first <= now) {
      const auto [time, id] = expiries_.top();
      expiries_.pop();
      const auto found = blocks_.find(id);
      if (found->second.used_until + keep_ > time) {  // It was used again in the meantime.
        expiries_.emplace(found->second.used_until + keep_, id);
        continue;
      }
      free_(time, found->second);
      blocks_.erase(found);
    }
  }

 private:
  using Expiry = std::pair<Time, std::uint64_t>;

  Time keep_;
  std::function<void(Time, const Block&)> free_;
  std::unordered_map<std::uint64_t, Block> blocks_;
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
};

/// The events of the requests.
/// One owner: the model's parameters, and the requests in progress, which share one cache.
class Prompts {
 public:
  Prompts(EventOrder& order, const TraceValues& values)
      : order_(&order),
        tasks_(order),
        model_(order, values),
        cache_(std::chrono::seconds(values.whole("keep_s")),
               [this](Time time, const Block& block) { free(time, block); }),
        token_bytes_(values.whole("token_bytes")),
        token_time_(std::chrono::microseconds(values.whole("token_us"))),
        prefill_tokens_s_(values["prefill_tokens_s"]),
        closed_(values.whole("closed") == 1),
        hints_(values.whole("hints") == 1) {}

  void add(const Request& request, std::uint32_t number) {
    announce_idle(request.time);
    cache_.expire(request.time);
    order_->advance(request.time);
    if (closed_) return add_closed(request, number);
    add_open(request, number);
  }
  void finish() {
    announce_idle(Time::max());
    cache_.expire(Time::max());
  }

 private:
  /// Requests that end by `now` announce that their blocks are idle, if no other request uses them:
  /// for as long as blocks that were used again had been, on average.
  void announce_idle(Time now) {
    for (; !ending_.empty() && ending_.begin()->first <= now; ending_.erase(ending_.begin())) {
      if (pauses_ == 0) continue;
      const auto& [end, request] = *ending_.begin();
      Hint hint;
      hint.next_use = Time(static_cast<std::int64_t>(paused_s_ / pauses_ * 1e9));
      hint.until = hint.next_use;
      hint.passes = 0;
      TraceEvent event = hint_event(hint);
      event.bytes = block_tokens * token_bytes_;
      for (const std::uint64_t id : request.blocks) {
        const Block* const block = cache_.find(id);
        if (block == nullptr || block->last.number != request.last.number) continue;
        event.object = block->object;
        tasks_.at_end(event, request.last);
      }
    }
  }
  /// The output's task, declared last, announces that it will read the blocks.
  void announce_output(const Request& request) {
    std::optional<TraceEvent> hint = forecast_.hint(request.time, token_time_);
    if (!hints_ || !hint) return;
    for (std::size_t at = 0; at < request.blocks.size(); ++at) {
      hint->object = cache_.find(request.blocks[at])->object;
      hint->bytes = bytes_used(request, at);
      tasks_.hint(*hint);
    }
  }
  void free(Time time, const Block& block) {
    TraceEvent event;
    event.time = time;
    event.object = block.object;
    event.kind = TraceEventKind::free;
    tasks_.at_end(event, block.last);
  }
  void allocate(Time time, std::uint64_t object) {
    TraceEvent event;
    event.time = time;
    event.object = object;
    event.bytes = block_tokens * token_bytes_;
    event.kind = TraceEventKind::allocation;
    event.tag = order_->intern("kv");
    order_->add(event);
  }
  /// The prompt's last block is used only as far as it has tokens.
  std::uint64_t bytes_used(const Request& request, std::size_t block) const {
    return std::min(request.input_tokens - block * block_tokens, block_tokens) * token_bytes_;
  }
  /// How long it takes to process the part of the prompt that is not cached.
  Time prefill_time(const Request& request) {
    if (prefill_tokens_s_ <= 0) return Time(0);
    std::uint64_t bytes = 0;
    for (std::size_t block = 0; block < request.blocks.size(); ++block) {
      if (cache_.find(request.blocks[block]) == nullptr) bytes += bytes_used(request, block);
    }
    const auto tokens = static_cast<double>(bytes / token_bytes_);
    return Time(static_cast<std::int64_t>(tokens / prefill_tokens_s_ * 1e9));
  }

  void add_open(const Request& request, std::uint32_t number) {
    const Time prefill = prefill_time(request);
    const Time decode = token_time_ * static_cast<std::int64_t>(request.output_tokens);
    const ServedModel::Server server = model_.serve(request.time, request.time + prefill + decode);
    const double tokens = static_cast<double>(request.output_tokens);
    const auto read_weights = [&](Time time, Time duration, double passes) {
      std::optional<TraceEvent> weights = model_.read(server, passes);
      if (!weights || passes <= 0) return;
      weights->time = time;
      weights->duration = duration;
      weights->task = number;
      order_->add(*weights);
    };
    read_weights(request.time, prefill, 1);
    read_weights(request.time + prefill, decode, tokens / static_cast<double>(server.batch));
    TraceEvent event;
    event.task = number;
    event.at = server.at;
    for (std::size_t at = 0; at < request.blocks.size(); ++at) {
      const std::uint64_t id = request.blocks[at];
      const bool cached = cache_.find(id) != nullptr;
      cache_.use(id, request.time + prefill + decode).object = id;
      if (!cached) allocate(request.time, id);
      event.time = request.time;
      event.object = id;
      event.bytes = bytes_used(request, at);
      event.use = cached ? UseKind::read : UseKind::write;
      event.passes = 1;
      event.duration = prefill;
      order_->add(event);
      if (request.output_tokens == 0) continue;
      event.time = request.time + prefill;
      event.use = UseKind::read;
      event.passes = static_cast<float>(request.output_tokens);
      event.duration = decode;
      order_->add(event);
    }
  }

  /// The tasks that write the cached blocks of the request.
  std::vector<DeclaredTask> writers(const Request& request) {
    std::vector<DeclaredTask> writers;
    for (const std::uint64_t id : request.blocks) {
      const Block* const block = cache_.find(id);
      const bool adds = block != nullptr && block->writer.exists() &&
                        (writers.empty() || writers.back().number != block->writer.number);
      if (adds) writers.push_back(block->writer);
    }
    std::ranges::sort(writers, {}, &DeclaredTask::number);
    const auto rest = std::ranges::unique(writers, {}, &DeclaredTask::number);
    writers.erase(rest.begin(), rest.end());
    return writers;
  }
  void add_closed(const Request& request, std::uint32_t number) {
    const std::vector<DeclaredTask> after = writers(request);
    const Time compute = prefill_time(request);
    const Time decode = token_time_ * static_cast<std::int64_t>(request.output_tokens);
    const ServedModel::Server server = model_.serve(request.time, request.time + compute + decode);
    TraceEvent task = task_event(compute, server.at);
    task.time = request.time;
    task.object = number;
    std::vector<TraceEvent> accesses;
    for (std::size_t at = 0; at < request.blocks.size(); ++at) {
      Block* const known = cache_.find(request.blocks[at]);
      if (known != nullptr && known->used_until < request.time) {
        paused_s_ += std::chrono::duration<double>(request.time - known->used_until).count();
        ++pauses_;
      }
      Block& block = cache_.use(request.blocks[at], request.time);
      if (known == nullptr) allocate(request.time, block.object = next_object_++);
      TraceEvent& access = accesses.emplace_back();
      access.object = block.object;
      access.bytes = bytes_used(request, at);
      access.use = known == nullptr ? UseKind::write : UseKind::read;
    }
    const DeclaredTask prefill = tasks_.declare(task, after);
    if (const auto weights = model_.read(server, 1)) tasks_.access(*weights);
    for (const TraceEvent& access : accesses) tasks_.access(access);
    DeclaredTask last = prefill;
    if (request.output_tokens > 0) {
      task.duration = token_time_;
      task.bytes = request.output_tokens;
      last = tasks_.declare(task, {&prefill, 1});
      if (const auto weights = model_.read(server, 1 / static_cast<double>(server.batch)))
        tasks_.access(*weights);
      for (TraceEvent& access : accesses) {
        access.use = UseKind::read;
        tasks_.access(access);
      }
      announce_output(request);
    }
    forecast_.add(last.end, request.output_tokens);
    for (const std::uint64_t id : request.blocks) {
      Block& block = cache_.use(id, last.end);
      if (!block.writer.exists()) block.writer = prefill;
      if (last.end >= block.last.end) block.last = last;
    }
    if (hints_) ending_.emplace(last.end, Ending{request.blocks, last});
  }

  EventOrder* order_;
  ClosedLoop tasks_;
  ServedModel model_;
  Cache cache_;
  std::uint64_t token_bytes_;
  Time token_time_;
  double prefill_tokens_s_;
  bool closed_, hints_;
  std::uint64_t next_object_ = 0;

  // What the server knows that gives hints.
  struct Ending {
    std::vector<std::uint64_t> blocks;
    DeclaredTask last;
  };
  std::multimap<Time, Ending> ending_;  // Requests, by their ends.
  OutputForecast forecast_;
  double paused_s_ = 0, pauses_ = 0;  // Between the uses of a block by two requests.
};

/// Mooncake's request traces: JSON lines with "timestamp" (milliseconds), "input_length",
/// "output_length" (tokens) and "hash_ids", one per 512 tokens of the prompt. Equal ids mean equal
/// prefixes, which share their KV cache.
///
/// A block of 512 tokens is an object, tagged "kv". At the time stamp of a request, blocks of the
/// prompt that are not cached are allocated and written once; cached ones are read once. This takes
/// as long as the tokens that are not cached take at "prefill_tokens_s". Then every output token
/// reads all blocks of the prompt, over "token_us". Of the prompt's last block only the part with
/// tokens is used. A block is freed "keep_s" after its last use; if it is requested later, it is
/// allocated and written again. The cache of the output tokens has no ids and is ignored. A request
/// earlier than the previous one is a bad line.
///
/// In a closed loop, a request has two tasks, and is their `request` with the number of its line.
/// The first starts at the time stamp, and after the tasks that write the blocks that it reads. The
/// second follows it and is repeated for each output token. Objects are numbered from 0; a block
/// that is allocated again is another object. In an open loop, a request is one task, a block is an
/// object with its id as the number, and all output tokens together read it in one access.
///
/// With "weight_bytes", requests read the weights of a `ServedModel`.
void convert_mooncake(const ConvertInput& input, EventOrder& order) {
  Prompts prompts(order, input.values);
  Time before{0};
  std::uint32_t number = 0;
  for_each_json_line(input.path, input.bad, input.values.whole("requests"), [&](JsonReader& json) {
    ++number;
    const Request request = read_request(json, before);
    before = request.time;
    prompts.add(request, number);
  });
  prompts.finish();
}

}  // namespace

TraceFormat mooncake_format() {
  return {"mooncake",
          "requests with shared prefixes: *_trace.jsonl",
          "kvcache-ai/Mooncake (FAST 2025)",
          "Apache-2.0",
          mooncake_parameters,
          convert_mooncake};
}

}  // namespace vma
