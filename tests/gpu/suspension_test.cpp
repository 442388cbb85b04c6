// Goal: memory moves while a kernel that never ends uses it, with nothing attached, and no word is
// wrong afterwards. Method: a kernel counts in every word until it is told to end, on a stream that
// the runtime was never told of. VMART_TEST_SUSPENDED_MOVES sets the number of moves; runs with
// thousands are started by hand.
#include "contract/child_process.hpp"
#include "gpu/gpu_test.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/counting_kernel.hpp"
#include "support/suspension_finding.hpp"
#include "support/test_run.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

namespace vma {
namespace {

/// Before the driver is opened: it watches libcuda's calls only if asked.
const bool asked_for = setenv("VMART_STOP", "suspend", 1) == 0;

constexpr std::uint64_t memory_bytes = 4 * gpu_chunk_bytes;

double in_us(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// A runtime that stops by suspension, and the driver below it, for work that it does not know of.
class SuspendingRuntime {
 public:
  explicit SuspendingRuntime(std::unique_ptr<Driver> opened) : driver_(*opened) {
    Settings settings;
    settings.suspends = true;
    if (opened->simulated()) settings.gate_limit = std::chrono::milliseconds(500);  // It is slow.
    runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(std::move(opened), settings));
    Migrator& migrator = parts_of(*runtime_).machinery->migrator;
    for (int gpu = 0; gpu < driver_.device_count(); ++gpu) {
      contexts_.push_back(driver_.retain_primary(DeviceId{gpu}));
      // Where it is undecided, moves would wait for work that never ends.
      const SuspensionFinding found = decided_finding(migrator, driver_.clock(), DeviceId{gpu});
      if (found.state != SuspensionFinding::State::usable) why_not_ = found.why;
    }
  }
  ~SuspendingRuntime() {
    for (int gpu = 0; gpu < driver_.device_count(); ++gpu) driver_.release_primary(DeviceId{gpu});
  }
  SuspendingRuntime(const SuspendingRuntime&) = delete;
  SuspendingRuntime& operator=(const SuspendingRuntime&) = delete;

  Driver& driver() { return driver_; }
  /// That of the first GPU.
  ContextHandle context() const { return contexts_.front(); }
  Runtime& runtime() { return *runtime_; }
  /// Why work cannot be suspended here; empty if it can.
  const std::string& why_not() const { return why_not_; }

 private:
  Driver& driver_;  // Of the runtime.
  std::unique_ptr<Runtime> runtime_;
  std::vector<ContextHandle> contexts_;
  std::string why_not_;
};

template <typename Machine>
class GpuSuspendedMoves : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_left_out<Machine>(); !why.empty()) {
      GTEST_SKIP() << "SKIPPED: " << why;
    }
  }
};

TYPED_TEST_SUITE(GpuSuspendedMoves, GpuMachines, GpuMachineNames);

/// Moves the memory under a kernel that never ends, as `move` does it, and checks every word.
template <typename Machine, typename Move>
void move_under_a_kernel(const Move& move) {
  SuspendingRuntime rig(Machine::open());
  if (rig.driver().simulated()) {
    ASSERT_EQ(rig.why_not(), "");
  } else if (!rig.why_not().empty()) {
    GTEST_SKIP() << "SKIPPED: " << rig.why_not();
  }
  Runtime& runtime = rig.runtime();
  const std::vector<Place> places = runtime.places();
  const std::uint64_t moves =
      number_from_environment("VMART_TEST_SUSPENDED_MOVES", rig.driver().simulated() ? 12 : 300);
  AllocOptions options;
  options.zeroed = true;
  options.chunk_bytes = gpu_chunk_bytes;
  auto* const words = static_cast<std::uint64_t*>(runtime.alloc(memory_bytes, gpu(0), options));
  std::mt19937_64 random(run_seed());
  std::vector<double> stalls_us;
  {
    CountingKernel counter(rig.driver(), rig.context(), {words, memory_bytes / sizeof(*words)});
    for (std::uint64_t number = 0; number < moves; ++number) {
      if (number % 20 == 0) {
        ASSERT_TRUE(counter.goes_on()) << "after " << number << " moves";
      }
      const MigrationReport report = move(runtime, words, places[random() % places.size()]);
      if (report.stall.count > 0) stalls_us.push_back(in_us(report.stall.max));
    }
    ASSERT_FALSE(stalls_us.empty());
    const std::uint64_t beats = counter.end();
    std::vector<std::uint64_t> seen(memory_bytes / sizeof(*words));
    runtime.read(words, std::as_writable_bytes(std::span(seen)));
    const auto wrong = std::ranges::count_if(seen, [&](auto word) { return word != beats; });
    std::ranges::sort(stalls_us);
    fmt::print(
        "{} moves, {} of them stopped a kernel, which counted to {}: {} words wrong; longest stop "
        "of a move "
        "{:.0f} us, p99 {:.0f} us, at most {:.0f} us\n",
        moves, stalls_us.size(), beats, wrong, stalls_us[stalls_us.size() / 2],
        stalls_us[stalls_us.size() * 99 / 100], stalls_us.back());
    EXPECT_EQ(wrong, 0);
  }
  EXPECT_EQ(runtime.stats().poisoned, 0u);
  runtime.free(words);
}

TYPED_TEST(GpuSuspendedMoves, LoseNothingOfAKernelThatNeverEnds) {
  if (!inside_child()) return run_current_test_in_child(std::chrono::seconds(250));
  MigrateOptions options;
  options.deadline = std::chrono::seconds(20);  // Enough for the copy on a busy computer.
  move_under_a_kernel<TypeParam>([&](Runtime& runtime, std::uint64_t* words, Place to) {
    return runtime.migrate(words, to, options);
  });
}

TYPED_TEST(GpuSuspendedMoves, LoseNothingInTheBackground) {
  if (!inside_child()) return run_current_test_in_child(std::chrono::seconds(250));
  move_under_a_kernel<TypeParam>([](Runtime& runtime, std::uint64_t* words, Place to) {
    return runtime.migrate_async(words, to).wait();
  });
}

}  // namespace
}  // namespace vma
