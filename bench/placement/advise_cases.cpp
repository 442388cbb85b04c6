// How long it takes from `advise` until a policy has the hint in hand: the processor's time from
// before the call to the entry of `on_use`, with a policy of the bench's own.

#include "bench/placement/cases.hpp"

#include "base/clock.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

namespace vma {
namespace {

using Moment = std::chrono::steady_clock::time_point;

/// When the last hint came. Shared with the policy, which the runtime owns.
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
    // The loop sleeps by then, and now and then its timer is about to run out.
    const auto pause = std::chrono::microseconds(300 + 37 * (i % 32));
    poll_until(clock, clock.now() + pause, [] { return false; });
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
  return sample;
}

}  // namespace

void register_advise_cases() {
  register_samples("placement/advise", advised, 1);
}

}  // namespace vma
