// Goal: a policy that throws, hangs or makes invalid plans harms only itself. Method: a scheduler
// on a simulated machine with policies made for the test.

#include "base/clock.hpp"
#include "machine/machine_file.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "runtime/place_states.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <new>
#include <stdexcept>
#include <string>

namespace vma {
namespace {

/// Releases policies that block until their test ends.
struct Latch {
  Mutex mutex;
  Condition changed;
  bool open = false;
  void wait() {
    MutexLock lock(mutex);
    changed.wait(lock, [this] { return open; });
  }
  void release() {
    const MutexLock lock(mutex);
    open = true;
    changed.notify_all();
  }
};

class Throwing : public Policy {
 public:
  void on_tick(const Snapshot&, Plan& plan) override {
    plan.move(ChunkId{0}, PlaceId{1}, 1, "before it throws");
    throw std::runtime_error("no idea");
  }
};

class ThrowingNowAndThen : public Policy {
 public:
  void on_tick(const Snapshot&, Plan&) override {
    if (++ticks_ % 2 == 0) throw std::runtime_error("every second time");
  }

 private:
  int ticks_ = 0;
};

/// Has no memory for the first tick of the first instance.
class OutOfMemory : public Policy {
 public:
  explicit OutOfMemory(int number) : number_(number) {}
  void on_tick(const Snapshot&, Plan&) override {
    if (number_ == 1) throw std::bad_alloc();
  }

 private:
  const int number_;
};

class Endless : public Policy {
 public:
  explicit Endless(std::shared_ptr<Latch> latch) : latch_(std::move(latch)) {}
  void on_tick(const Snapshot& snapshot, Plan&) override {
    latch_->wait();
    seen_ = snapshot.chunks().size();  // The books passed to it must still exist.
  }

 private:
  const std::shared_ptr<Latch> latch_;
  std::size_t seen_ = 0;
};

class Nonsense : public Policy {
 public:
  void on_alloc(const AllocRequest&, const Snapshot&, std::span<PlaceId> chunks) override {
    for (PlaceId& place : chunks) place = PlaceId{200};
  }
  void on_tick(const Snapshot&, Plan& plan) override {
    plan.move(ChunkId{UINT32_MAX}, PlaceId{0}, 1, "no such chunk");
    plan.move(ChunkId{0}, PlaceId{77}, 1, "no such place");
    plan.move(ChunkId{0}, PlaceId{1}, std::numeric_limits<double>::quiet_NaN(), "no number");
    plan.move(ChunkId{0}, PlaceId{1}, 1, "");
  }
};

class BadPolicy : public testing::Test {
 protected:
  BadPolicy() : driver_(load_machine("test-2")), uses_(driver_.clock()) {
    Settings settings = resolve_settings(RuntimeOptions{});
    settings.policy.clear();
    settings.calibration = "off";
    machinery_ = std::make_unique<Machinery>(driver_, uses_, settings);
  }
  ~BadPolicy() override {
    latch_->release();
    if (scheduler_) scheduler_->stop();
    machinery_->migrator.finish();
    scheduler_.reset();
    machinery_->memory.release();
  }

  Scheduler& with(const std::string& policy) {
    SchedulerLimits limits;
    // Long enough for the other policies to answer on a busy computer.
    limits.policy_limit =
        policy == "endless" ? std::chrono::milliseconds(200) : std::chrono::milliseconds(60'000);
    const auto make = [this](const std::string& name) -> std::unique_ptr<Policy> {
      if (name == "throwing") return std::make_unique<Throwing>();
      if (name == "now and then") return std::make_unique<ThrowingNowAndThen>();
      if (name == "out of memory") return std::make_unique<OutOfMemory>(++made_);
      if (name == "endless") return std::make_unique<Endless>(latch_);
      if (name == "nonsense") return std::make_unique<Nonsense>();
      return make_policy(name);
    };
    scheduler_ = std::make_unique<Scheduler>(
        SchedulerGround{driver_, machinery_->memory, machinery_->migrator, uses_, decisions_},
        place_states(driver_, machinery_->topology, machinery_->memory.chunks().ledger()),
        machinery_->costs, limits, make, policy);
    return *scheduler_;
  }
  void alloc() {
    AllocOptions options;
    options.chunk_bytes = 8192;
    machinery_->memory.alloc(8192, gpu(0), options);
  }

  int made_ = 0;  // Of those out of memory.
  const std::shared_ptr<Latch> latch_ = std::make_shared<Latch>();
  SimDriver driver_;
  UseLog uses_;
  DecisionLog decisions_{driver_.executor(), {}};
  std::unique_ptr<Machinery> machinery_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(BadPolicy, ThatThrowsLosesItsPlanAndThenItsPlace) {
  Scheduler& scheduler = with("throwing");
  alloc();
  scheduler.tick();
  EXPECT_EQ(scheduler.policy(), "throwing");
  EXPECT_EQ(scheduler.stats().policy_failures, 1u);
  EXPECT_EQ(scheduler.stats().moves_wanted, 0u);
  scheduler.tick();
  scheduler.tick();
  EXPECT_EQ(scheduler.policy(), "stay_put");
  EXPECT_EQ(scheduler.stats().policy_failures, 3u);
  scheduler.tick();
  EXPECT_EQ(scheduler.stats().ticks, 4u);
  const auto decisions = decisions_.since(1, 100);
  const auto why = std::ranges::find(decisions, DecisionKind::policy_failed, &Decision::kind);
  ASSERT_NE(why, decisions.end());
  EXPECT_EQ(why->reason, "no idea");
}

TEST_F(BadPolicy, ThatThrowsAtEveryTickIsReplacedThoughItAnswersAllElse) {
  Scheduler& scheduler = with("throwing");
  const Geometry geometry = plan_geometry(8192, 8192, gpu(0), page_bytes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(scheduler.policy(), "throwing");
    scheduler.tick();
    scheduler.place(geometry, gpu(0), {});
  }
  EXPECT_EQ(scheduler.policy(), "stay_put");
}

TEST_F(BadPolicy, ThatThrowsNowAndThenIsReplacedWhenItDoesSoOften) {
  const int often = SchedulerLimits().failures.in_window_max;
  Scheduler& scheduler = with("now and then");
  for (int i = 0; i < 2 * often - 1; ++i) scheduler.tick();
  EXPECT_EQ(scheduler.policy(), "now and then");
  scheduler.tick();
  EXPECT_EQ(scheduler.policy(), "stay_put");
  EXPECT_EQ(scheduler.stats().policy_failures, static_cast<std::uint64_t>(often));
}

TEST_F(BadPolicy, ThatHadNoMemoryIsMadeAnewAtOnce) {
  Scheduler& scheduler = with("out of memory");
  for (int i = 0; i < 4; ++i) scheduler.tick();
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(scheduler.policy(), "out of memory");
  EXPECT_EQ(scheduler.stats().policy_failures, 1u);
}

TEST_F(BadPolicy, ThatThrowsOftenIsLoggedOnceASecond) {
  const int often = SchedulerLimits().failures.in_window_max;
  Scheduler& scheduler = with("now and then");
  const SteadyClock wall;
  const TimePoint begin = wall.now();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2 * often; ++i) scheduler.tick();
  const std::string log = testing::internal::GetCapturedStderr();
  const auto seconds = (wall.now() - begin) / std::chrono::seconds(1);
  long lines = 0;
  for (std::size_t at = 0; (at = log.find("every second time", at)) != std::string::npos; ++at) {
    ++lines;
  }
  EXPECT_EQ(scheduler.stats().policy_failures, static_cast<std::uint64_t>(often));
  EXPECT_GE(lines, 1) << log;
  EXPECT_LE(lines, 1 + seconds) << log;
}

TEST_F(BadPolicy, ThatNeverAnswersIsLeftBehindWithItsBooks) {
  Scheduler& scheduler = with("endless");
  alloc();
  for (int i = 0; i < 3; ++i) scheduler.tick();
  EXPECT_EQ(scheduler.policy(), "stay_put");
  EXPECT_EQ(scheduler.stats().policy_failures, 3u);
  alloc();
  scheduler.tick();
  EXPECT_EQ(scheduler.stats().chunks, 2u);
}

TEST_F(BadPolicy, ThatPlansNonsenseIsRefusedAndGoesOn) {
  Scheduler& scheduler = with("nonsense");
  alloc();
  scheduler.tick();
  const SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.moves_wanted, 4u);
  EXPECT_EQ(stats.moves_started, 0u);
  std::uint64_t refused = 0;
  for (const auto& [reason, count] : stats.moves_refused) refused += count;
  EXPECT_EQ(refused, 4u);
  EXPECT_EQ(stats.policy_failures, 0u);
  const Geometry geometry{8192, 8192, 2};
  for (const Place at : scheduler.place(geometry, gpu(1), {})) EXPECT_EQ(at, gpu(1));
}

}  // namespace
}  // namespace vma
