// Goal: on real GPUs, background moves lose no write of kernels that never pause, however many
// gates are given up; and the test fails if what the bytes depend on is broken. Method: random
// atomic adds to an array that moves and to a twin that does not. VMART_TWIN_SWITCHES sets the
// number of switches; runs with thousands are started by hand.

#include "contract/child_process.hpp"
#include "gpu/gpu_test.hpp"
#include "gpu/twin_rig.hpp"
#include "support/test_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vma {
namespace {

double us(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

void print(const GpuTwinPlan& plan, const GpuTwinOutcome& outcome) {
  const DurationSummary& stall = outcome.stats.stall;
  fmt::print(
      "{} GPUs, {} streams each, gate limit {} us: {} switches, {} gates given up {}, {} "
      "launches, {} words wrong; stall median {:.0f} us, p99 {:.0f} us, max {:.0f} us\n",
      plan.gpus, plan.streams_per_gpu, plan.gate_limit.count(), outcome.switches,
      outcome.stats.gates_given_up, outcome.stats.gates_given_up_by_reason, outcome.launches,
      outcome.words_different, us(stall.median), us(stall.p99), us(stall.max));
}

template <typename Machine>
class GpuTwins : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not = why_left_out<Machine>();
    if (why_not.empty()) {
      std::unique_ptr<Driver> driver = Machine::open();
      gpus_ = driver->device_count();
      simulated_ = driver->simulated();
    }
    if (!why_not.empty()) GTEST_SKIP() << "SKIPPED: " << why_not;
  }

  GpuTwinPlan plan(int gpus) const {
    GpuTwinPlan plan;
    plan.seed = run_seed();
    plan.gpus = gpus;
    plan.switches = number_from_environment("VMART_TWIN_SWITCHES", 300);
    if (simulated_) {  // One processor does all the work.
      plan.switches = 12;
      plan.streams_per_gpu = 3;
      plan.chunks = 2;
      plan.adds = 16;
      plan.gate_limit = std::chrono::milliseconds(500);
    } else {
      plan.chunk_bytes = std::uint64_t{16} << 20;
    }
    return plan;
  }
  /// Two GPUs, and all of them; with one alone, memory moves between it and the host.
  std::vector<int> counts() const {
    return gpus_ > 2 ? std::vector<int>{2, gpus_} : std::vector<int>{gpus_};
  }
  std::string why_not_between_gpus() const {
    return gpus_ < 2 ? "SKIPPED: needs 2 GPUs, has " + std::to_string(gpus_) : "";
  }
  GpuTwinOutcome play(const GpuTwinPlan& plan) {
    const GpuTwinOutcome outcome = GpuTwinRig(Machine::open(), plan).play();
    print(plan, outcome);
    return outcome;
  }
  void expect_equal(const GpuTwinPlan& plan) {
    const GpuTwinOutcome outcome = play(plan);
    EXPECT_EQ(outcome.problem, "");
    EXPECT_EQ(outcome.words_different, 0u);
    fmt::print("VMART_COUNT twin_gpu_switches={}\n", outcome.switches);
  }
  /// A broken context stays broken, so a test that breaks one runs in its own process.
  void expect_found(TwinBug bug) {
    constexpr std::chrono::seconds limit(120);
    if (!simulated_ && !inside_child()) return run_current_test_in_child(limit);
    constexpr int seeds_max = 20;
    for (int i = 0; i < seeds_max; ++i) {
      GpuTwinPlan broken = plan(2);
      broken.seed += static_cast<unsigned>(i);
      broken.bug = bug;
      broken.streams_per_gpu = std::min(broken.streams_per_gpu, 6);
      broken.hosts = false;
      broken.cancels = false;
      broken.switches = simulated_ ? 12 : 60;
      if (simulated_) broken.gate_limit = std::chrono::milliseconds(5);
      const GpuTwinOutcome outcome = play(broken);
      if (outcome.problem.empty() && outcome.words_different == 0) continue;
      fmt::print("found by seed {}: {} words differ {}\n", broken.seed, outcome.words_different,
                 outcome.problem);
      return;
    }
    ADD_FAILURE() << "nobody noticed";
  }

  int gpus_ = 0;
  bool simulated_ = false;
};
TYPED_TEST_SUITE(GpuTwins, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuTwins, AreEqualAfterMovesInAllDirections) {
  for (const int gpus : this->counts()) {
    GpuTwinPlan plan = this->plan(gpus);
    plan.streams_per_gpu = std::min(plan.streams_per_gpu, 6);
    this->expect_equal(plan);
  }
}

TYPED_TEST(GpuTwins, AreEqualAfterMovesBetweenGpusAlone) {
  if (const std::string why = this->why_not_between_gpus(); !why.empty()) GTEST_SKIP() << why;
  for (const int gpus : this->counts()) {
    GpuTwinPlan plan = this->plan(gpus);
    plan.hosts = false;
    this->expect_equal(plan);
  }
}

TYPED_TEST(GpuTwins, AreEqualThoughManyGatesAreGivenUp) {
  for (const int gpus : this->counts()) {
    std::mt19937_64 random(run_seed());
    for (int phase = 0; phase < 4; ++phase) {
      GpuTwinPlan plan = this->plan(gpus);
      plan.hosts = phase % 2 == 0 || gpus < 2;
      if (phase < 2) plan.streams_per_gpu = std::min(plan.streams_per_gpu, 6);
      plan.seed += static_cast<unsigned>(phase);
      plan.switches /= 4;
      plan.gate_limit = std::chrono::microseconds(20 + random() % 400);
      this->expect_equal(plan);
    }
  }
}

TYPED_TEST(GpuTwins, DifferIfGatesStopNothing) {
  if (const std::string why = this->why_not_between_gpus(); !why.empty()) GTEST_SKIP() << why;
  this->expect_found(TwinBug::no_gate);
}

TYPED_TEST(GpuTwins, DifferIfAnOldDigestIsKept) {
  if (const std::string why = this->why_not_between_gpus(); !why.empty()) GTEST_SKIP() << why;
  this->expect_found(TwinBug::old_digest);
}

TYPED_TEST(GpuTwins, DifferIfNothingIsSettled) {
  if (const std::string why = this->why_not_between_gpus(); !why.empty()) GTEST_SKIP() << why;
  this->expect_found(TwinBug::no_settling);
}

}  // namespace
}  // namespace vma
