#include "lab/generate/trace_generators.hpp"

#include "lab/generate/object_set.hpp"
#include "lab/generate/trace_parameters.hpp"
#include "lab/generate/trace_random.hpp"
#include "lab/trace/event_order.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::array serving_parameters{
    gpus_parameter,
    length_parameter,
    TraceParameter{"weight_bytes", 16e9, 1, 1e13, "size of one copy of the weights"},
    TraceParameter{"weight_objects", 32, 1, 1e5, "objects per copy"},
    TraceParameter{"token_bytes", 131'072, 1, 1e9, "KV cache size per token"},
    TraceParameter{"requests_s", 20, 1e-3, 1e6, "average requests per second", false},
    TraceParameter{"prompt_tokens", 1000, 1, 1e7, "median length of a prompt"},
    TraceParameter{"output_tokens", 200, 1, 1e7, "median length of an output"},
    TraceParameter{"sigma", 0.8, 0, 3, "standard deviation of the logarithms of both lengths",
                   false},
    TraceParameter{"token_us", 20'000, 1, 1e7, "time per output token"},
    TraceParameter{"tick_ms", 200, 1, 1e7, "time between accesses to one object"},
    TraceParameter{"swing", 0.5, 0, 1, "amplitude of the rate, as a share of the average", false},
    TraceParameter{"swing_s", 30, 1e-3, 1e7, "time between peaks of the rate", false},
    TraceParameter{"closed", 0, 0, 1,
                   "1: a step waits for the one before; 0: open loop, accesses at fixed times"},
    hints_parameter};

/// How long outputs are that a server has not generated yet: as long on average as those that have
/// ended. It does not know how long a given one will be. Not thread-safe.
class OutputForecast {
 public:
  /// An output of so many tokens ends then.
  void add(Time end, std::uint64_t tokens) { coming_.emplace(end, tokens); }
  /// What an output that starts now announces about its cache, without an object and range: that as
  /// many tokens will read it from now on, and end after their time. Nothing as long as no output
  /// has ended. Requires: times do not decrease.
  std::optional<TraceEvent> hint(Time now, Time token_time);

 private:
  using Output = std::pair<Time, std::uint64_t>;

  std::priority_queue<Output, std::vector<Output>, std::greater<>> coming_;
  double tokens_ = 0, ended_ = 0;
};

std::optional<TraceEvent> OutputForecast::hint(Time now, Time token_time) {
  for (; !coming_.empty() && coming_.top().first <= now; coming_.pop()) {
    tokens_ += static_cast<double>(coming_.top().second);
    ++ended_;
  }
  if (ended_ == 0) return std::nullopt;
  Hint hint;
  hint.next_use = Time(0);
  hint.passes = tokens_ / ended_;
  const double ns = hint.passes * static_cast<double>(token_time.count());
  hint.until = std::max(Time(1), Time(static_cast<std::int64_t>(ns)));
  return hint_event(hint);
}

struct ServedRequest {
  std::uint64_t object = 0;
  std::uint32_t task = 0;
  std::uint64_t prompt = 0, output = 0;
  double made = 0;  // Output tokens made so far.
};

/// One owner: the parameters of one workload, and how far it has been generated.
class Serving {
 public:
  Serving(const TraceValues& values, TraceRandom& random, EventOrder& order)
      : values_(&values),
        random_(&random),
        order_(&order),
        tasks_(order),
        closed_(values.whole("closed") == 1),
        tick_(std::chrono::milliseconds(values.whole("tick_ms"))),
        tokens_a_tick_(static_cast<double>(tick_.count()) / (values["token_us"] * 1000)),
        steps_(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(tokens_a_tick_))),
        shards_(values.whole("weight_objects")),
        gpus_(values.whole("gpus")),
        weights_(order, 0, gpus_.size() * shards_,
                 std::max<std::uint64_t>(1, values.whole("weight_bytes") / shards_), "weights"),
        next_object_(weights_.count()),
        ends_(gpus_.size()) {}

  void run() {
    const Time end = seconds_of((*values_)["length_s"]);
    weights_.allocate_all(Time(0));
    Time now{0};
    for (; now < end; now += tick_) {
      order_->advance(now);
      arrive(now);
      for (std::size_t device = 0; device < gpus_.size(); ++device) work(now, device);
    }
    for (std::size_t device = 0; device < gpus_.size(); ++device) {
      for (const ServedRequest& request : gpus_[device]) free(request.object, now, device);
    }
    for (std::uint64_t weight = 0; weight < weights_.count(); ++weight)
      free(weight, now, weight / shards_);
  }

 private:
  std::uint64_t token_bytes() const { return values_->whole("token_bytes"); }

  std::uint64_t length(std::string_view median) {
    const double drawn = random_->log_normal((*values_)[median], (*values_)["sigma"]);
    return static_cast<std::uint64_t>(std::clamp(drawn, 1.0, 1e8));
  }

  /// The tick declared last announces that it and later ones will read the cache.
  void announce(const ServedRequest& request, Time now) {
    if (!closed_ || values_->whole("hints") == 0) return;
    const Time token_time = std::chrono::microseconds(values_->whole("token_us"));
    std::optional<TraceEvent> hint = forecast_.hint(now, token_time);
    if (!hint) return;
    hint->object = request.object;
    hint->bytes = (request.prompt + request.output) * token_bytes();
    tasks_.hint(*hint);
  }

  void arrive(Time now) {
    const double seconds = static_cast<double>(now.count()) * 1e-9;
    const double swing = std::sin(2 * std::numbers::pi * seconds / (*values_)["swing_s"]);
    const double rate = (*values_)["requests_s"] * (1 + (*values_)["swing"] * swing);
    std::uint64_t count = random_->poisson(rate * static_cast<double>(tick_.count()) * 1e-9);
    for (; count > 0; --count) {
      const ServedRequest request{next_object_++, ++requests_, length("prompt_tokens"),
                                  length("output_tokens")};
      TraceEvent event;
      event.kind = TraceEventKind::allocation;
      event.time = now;
      event.object = request.object;
      event.bytes = (request.prompt + request.output) * token_bytes();
      event.tag = order_->intern("kv");
      order_->add(event);
      std::min_element(gpus_.begin(), gpus_.end(), [](const auto& a, const auto& b) {
        return a.size() < b.size();
      })->push_back(request);
    }
  }

  void free(std::uint64_t object, Time now, std::size_t device) {
    TraceEvent event;
    event.kind = TraceEventKind::free;
    event.time = now;
    event.object = object;
    tasks_.at_end(event, ends_[device]);
  }

  /// An access in this tick. In a closed loop, each step of the tick has its share.
  void access(TraceEvent event) {
    if (closed_) {
      event.passes /= static_cast<float>(steps_);
      return tasks_.access(event);
    }
    event.duration = tick_;
    order_->add(event);
  }

  void work(Time now, std::size_t device) {
    std::vector<ServedRequest>& requests = gpus_[device];
    if (requests.empty()) return;
    const TracePlace at(gpu(static_cast<int>(device)));
    if (closed_) {
      TraceEvent batch = task_event(tick_ / static_cast<std::int64_t>(steps_), at);
      batch.time = now;
      batch.bytes = steps_;
      const DeclaredTask before = ends_[device];
      ends_[device] = tasks_.declare(batch, {&before, 1});
    }
    for (std::uint64_t shard = 0; shard < shards_; ++shard) {
      TraceEvent event = weights_.access(now, device * shards_ + shard);
      event.at = at;
      event.passes = static_cast<float>(tokens_a_tick_);
      access(event);
    }
    for (ServedRequest& request : requests) decode(request, now, at);
    std::erase_if(requests, [&](const ServedRequest& request) {
      const bool ended = request.made >= static_cast<double>(request.output);
      if (ended) free(request.object, now + tick_, device);
      if (ended) forecast_.add(now + tick_, request.output);
      return ended;
    });
  }

  /// One tick of one request: reads the cache as it is at the end of the tick, and writes the new
  /// part.
  void decode(ServedRequest& request, Time now, TracePlace at) {
    const double left = static_cast<double>(request.output) - request.made;
    const double tokens = std::min(tokens_a_tick_, left);
    const bool begins = request.made == 0;
    if (begins) announce(request, now);
    const std::uint64_t old =
        begins ? 0 : request.prompt + static_cast<std::uint64_t>(request.made);
    request.made = tokens == left ? static_cast<double>(request.output) : request.made + tokens;
    const std::uint64_t has = request.prompt + static_cast<std::uint64_t>(request.made);
    TraceEvent event;
    event.time = now;
    event.object = request.object;
    event.task = request.task;
    event.at = at;
    event.bytes = has * token_bytes();
    event.passes = static_cast<float>(tokens);
    access(event);
    if (has == old) return;
    event.use = UseKind::write;
    event.passes = 1;
    event.offset = old * token_bytes();
    event.bytes = (has - old) * token_bytes();
    access(event);
  }

  const TraceValues* values_;
  TraceRandom* random_;
  EventOrder* order_;
  ClosedLoop tasks_;
  bool closed_;
  Time tick_;
  double tokens_a_tick_;
  std::uint64_t steps_;  // Of a tick, in a closed loop.
  std::uint64_t shards_;
  std::vector<std::vector<ServedRequest>> gpus_;
  ObjectSet weights_;
  std::uint64_t next_object_;
  std::vector<DeclaredTask> ends_;  // In a closed loop, the last task of each GPU.
  std::uint32_t requests_ = 0;
  OutputForecast forecast_;
};

/// Serving a language model. Each GPU has a copy of the weights, split into "weight_objects"
/// objects tagged "weights", numbered from 0. Requests arrive as a Poisson process, with prompts
/// and outputs of log-normal length. Each goes to the GPU with the fewest requests, which processes
/// all of its requests at once. A request is a task; its cache is an object tagged "kv" for its
/// prompt and output tokens that lives from its arrival to its last token.
///
/// Time advances in ticks of "tick_ms"; requests begin and end at ticks. In each tick a GPU with
/// requests makes one token per "token_us". For each token it reads all of its weights, and the
/// filled part of each cache. In each cache it writes the new part: the prompt in the first tick,
/// and the tokens made in this tick. In a closed loop, a tick of a GPU is one task after the
/// previous one, whose steps all its requests share, one for each token: a slow step delays all
/// later ones, but who shares it is as in the open loop. With "hints", the first tick of a request
/// announces how often its cache will be read: as often as the outputs that have ended were long,
/// on average. The arrival rate oscillates around its average by a share of up to "swing", with a
/// period of "swing_s".
void generate_serving(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  Serving(values, random, order).run();
}

}  // namespace

TraceGenerator serving_generator() {
  return {"serving", "a language model's weights and the KV caches of its requests",
          serving_parameters, generate_serving};
}

}  // namespace vma
