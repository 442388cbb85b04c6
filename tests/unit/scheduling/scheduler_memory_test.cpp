// Goal: whichever allocation of the scheduler's thread fails, the process survives, no accepted
// move is lost, the policy eventually learns of all changes, and a policy that overran is replaced.
// Method: replaces operator new, which fails the n-th allocation of a step, or all from the n-th
// on, for every n.
#include "support/failing_memory.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <new>
#include <utility>

namespace vma {
namespace {

enum class Which { one, all_from };

// Allocations of this thread while it is under test, otherwise negative.
thread_local long seen = -1;
thread_local long failing = 0, failed = 0;
thread_local Which which = Which::one;

bool fails() {
  if (seen < 0) return false;
  ++seen;
  if (which == Which::one ? seen != failing : seen < failing) return false;
  ++failed;
  return true;
}

constexpr std::uint32_t chunks = 6;
constexpr PlaceId gpu0{0};

/// Wants every chunk at GPU 0.
class Fetches : public Policy {
 public:
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    for (std::uint32_t i = 0; i < snapshot.chunks().size(); ++i) {
      const ChunkRow& row = snapshot.chunk(ChunkId{i});
      if (row.bytes > 0 && row.at != gpu0 && !row.moving) plan.move(ChunkId{i}, gpu0, 1e9, "here");
    }
  }
};

/// Shared with policies, which may outlive their scheduler.
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

/// Returns only once the latch is open.
class Overruns : public Fetches {
 public:
  explicit Overruns(std::shared_ptr<Latch> latch) : latch_(std::move(latch)) {}
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    latch_->wait();
    Fetches::on_tick(snapshot, plan);
  }

 private:
  std::shared_ptr<Latch> latch_;
};

RuntimeOptions options_of(std::function<std::unique_ptr<Policy>()> make) {
  PolicyKind kind;
  kind.name = "made_here";
  kind.make = [make = std::move(make)](const PolicyValues&) { return make(); };
  RuntimeOptions options;
  options.policies = {kind};
  return options;
}

/// Whether an allocation failed.
bool step_without_memory(SchedulerRig& rig, Which mode, long number) {
  which = mode;
  allocation_fails = fails;
  failing = number;
  failed = 0;
  seen = 0;
  try {
    rig.runtime().step_scheduler();
  } catch (const std::exception&) {  // The loop would log it.
  }
  seen = -1;
  return failed > 0;
}

void expect_all_arrive(SchedulerRig& rig, const std::uint64_t* words) {
  EXPECT_TRUE(comes_true([&] {
    rig.runtime().step_scheduler();
    for (std::uint32_t i = 0; i < chunks; ++i)
      if (rig.place(words, i) != gpu(0)) return false;
    const SchedulerStats stats = rig.runtime().scheduler_stats();
    return stats.moves_done + stats.moves_failed == stats.moves_started;
  }));
}

class SchedulerMemory : public testing::TestWithParam<Which> {};
INSTANTIATE_TEST_SUITE_P(Modes, SchedulerMemory, testing::Values(Which::one, Which::all_from));

TEST_P(SchedulerMemory, NoAcceptedMoveIsLostAndWhatCameAndWentIsKnown) {
  for (long number = 1;; ++number) {
    SCOPED_TRACE(number);
    SchedulerRig rig("made_here", "test-2", options_of([] { return std::make_unique<Fetches>(); }));
    std::uint64_t* const gone = rig.alloc(1, gpu(0));
    rig.scheduler().collect();
    std::uint64_t* const words = rig.alloc(chunks, gpu(1));
    rig.runtime().free(gone);
    rig.use(words, 0, 0);
    const bool fired = step_without_memory(rig, GetParam(), number);
    expect_all_arrive(rig, words);
    EXPECT_EQ(rig.scheduler().stats().chunks, chunks);
    EXPECT_EQ(rig.scheduler().places()[index(gpu0)].used_bytes, chunks * SchedulerRig::chunk_bytes);
    if (!fired || HasFailure()) break;
  }
}

TEST_P(SchedulerMemory, APolicyThatOverranIsReplacedInTheEnd) {
  for (long number = 1;; ++number) {
    SCOPED_TRACE(number);
    const auto latch = std::make_shared<Latch>();
    const auto make = [&] { return std::make_unique<Overruns>(latch); };
    SchedulerRig rig("made_here", "test-2", options_of(make), std::chrono::milliseconds(20));
    std::uint64_t* const words = rig.alloc(chunks, gpu(1));
    const bool fired = step_without_memory(rig, GetParam(), number);
    latch->release();
    // On a busy computer the following policies may overrun too, until stay_put takes over.
    EXPECT_TRUE(comes_true([&] {
      rig.runtime().step_scheduler();
      return rig.place(words) == gpu(0) || rig.runtime().policy() == "stay_put";
    }));
    if (!fired || HasFailure()) break;
  }
}

}  // namespace
}  // namespace vma
