// Latency from `advise` until a policy receives the hint: processor time from just before the call
// to the entry of `on_use`, with a policy of the benchmark. For comparison, the minimum that the
// machine needs for this: two idle threads that wake each other, with the same pauses.

#include "bench/placement/cases.hpp"

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

namespace vma {
namespace {

using Moment = std::chrono::steady_clock::time_point;

/// When the last hint arrived. Shared with the policy, which the runtime owns.
struct Stamp {
  std::atomic<std::uint64_t> hints{0};
  std::atomic<Moment> at{};
};

class Stamping : public Policy {
 public:
  explicit Stamping(std::shared_ptr<Stamp> stamp) : stamp_(std::move(stamp)) {}
  void on_use(const UseEvent& use, const Snapshot&, Plan&) override {
    if (use.hint == nullptr) return;
    stamp_->at = std::chrono::steady_clock::now();
    ++stamp_->hints;
  }

 private:
  const std::shared_ptr<Stamp> stamp_;
};

/// Pauses of varying length, after which the other threads sleep; sometimes, a timer is about to
/// expire.
void pause(SteadyClock& clock, std::uint64_t number) {
  const auto pause = std::chrono::microseconds(300 + 37 * (number % 32));
  poll_until(clock, clock.now() + pause, [] { return false; });
}

/// A thread that waits to be woken, and then wakes the next one or records the time.
class Waker {
 public:
  explicit Waker(Waker* next) : next_(next) {
    task_ = ThreadedExecutor().spawn("bench_waker", [this] { run(); });
  }
  ~Waker() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    woken_.notify_all();
    task_->join();
  }
  void wake() {
    {
      const MutexLock lock(mutex_);
      ++asked_;
    }
    woken_.notify_all();
  }
  std::uint64_t done() const { return done_; }
  Moment at() const { return at_; }

 private:
  void run() {
    MutexLock lock(mutex_);
    while (true) {
      woken_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return stop_ || asked_ > done_; });
      if (stop_) return;
      if (next_ != nullptr) next_->wake();
      at_ = std::chrono::steady_clock::now();
      ++done_;
    }
  }

  Waker* const next_;
  Mutex mutex_;
  Condition woken_;
  std::uint64_t asked_ VMART_GUARDED_BY(mutex_) = 0;
  bool stop_ VMART_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<Moment> at_{};
  std::unique_ptr<Task> task_;  // Declared last, because the thread uses the members above.
};

std::vector<std::chrono::nanoseconds> two_wakes(std::uint64_t count) {
  Waker second(nullptr), first(&second);
  SteadyClock clock;
  std::vector<std::chrono::nanoseconds> took;
  for (std::uint64_t i = 0; i < count; ++i) {
    pause(clock, i);
    const Moment begin = std::chrono::steady_clock::now();
    first.wake();
    const auto come = [&] { return second.done() > i; };
    if (!poll_until(clock, clock.now() + std::chrono::seconds(10), come))
      throw std::runtime_error("a thread was not woken within ten seconds");
    took.push_back(second.at() - begin);
  }
  return took;
}

Sample advised() {
  const auto stamp = std::make_shared<Stamp>();
  PolicyKind kind;
  kind.name = "stamping";
  kind.make = [stamp](const PolicyValues&) { return std::make_unique<Stamping>(stamp); };
  RuntimeOptions options;
  options.policies = {kind};
  options.policy = kind.name;
  Runtime runtime(options);
  void* data = runtime.alloc(2 * mebibyte, gpu(0));
  Hint hint;
  hint.device = gpu(0);
  hint.next_use = std::chrono::milliseconds(5);
  SteadyClock clock;
  std::vector<std::chrono::nanoseconds> took;
  const std::uint64_t hints = setting("VMART_BENCH_BATCHES", 1000);
  for (std::uint64_t i = 0; i < hints; ++i) {
    pause(clock, i);
    const Moment begin = std::chrono::steady_clock::now();
    runtime.advise(data, 2 * mebibyte, hint);
    const auto come = [&] { return stamp->hints > i; };
    if (!poll_until(clock, clock.now() + std::chrono::seconds(10), come))
      throw std::runtime_error("a hint did not come to the policy within ten seconds");
    took.push_back(stamp->at.load() - begin);
  }
  runtime.free(data);
  Sample sample;
  sample.wall = median_of(took);
  add_percentiles(sample, "advise", std::move(took));
  add_percentiles(sample, "two_wakes", two_wakes(hints));
  return sample;
}

}  // namespace

void register_advise_cases() {
  register_samples("placement/advise", advised, 1);
}

}  // namespace vma
