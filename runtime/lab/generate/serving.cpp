#include "lab/generate/serving.hpp"

#include "lab/generate/output_forecast.hpp"
#include "lab/trace/closed_loop.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

namespace vma {
namespace {

struct ServedRequest {
  std::uint64_t object = 0;
  std::uint32_t task = 0;
  std::uint64_t prompt = 0, output = 0;
  double made = 0;  // Output tokens made so far.
};

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

}  // namespace

void generate_serving(const TraceValues& values, TraceRandom& random, EventOrder& order) {
  Serving(values, random, order).run();
}

}  // namespace vma
