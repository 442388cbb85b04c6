// Goal: under a hold, slots show their targets beside the copies where an unmap does not wait for
// them, and whichever call fails then, every slot shows its source or its target, complete. Method:
// the order of the driver calls; every call failed once.
#include "migrate/moves/held_pipeline.hpp"

#include "support/suspension_finding.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t pipeline_seed = 70;
constexpr std::size_t pipeline_chunks = 4;

/// How many slots were mapped before the first wait for a copy: the first wait behind a map.
std::ptrdiff_t shown_before_waiting(const std::vector<TracedCall>& trace) {
  const auto is_map = [](const TracedCall& call) { return call.call == Call::map; };
  const auto first = std::ranges::find_if(trace, is_map);
  const auto wait = std::find_if(
      first, trace.end(), [](const TracedCall& call) { return call.call == Call::wait_event; });
  return std::count_if(first, wait, is_map);
}

/// How often an event was waited for before the first slot was mapped: for the work of each
/// context, and for the first copy unless its slot is shown beside it.
std::ptrdiff_t waits_before_showing(const std::vector<TracedCall>& trace) {
  const auto map = std::ranges::find(trace, Call::map, &TracedCall::call);
  return std::count_if(trace.begin(), map,
                       [](const TracedCall& call) { return call.call == Call::wait_event; });
}

/// With the targets in the cache.
std::shared_ptr<Allocation> warm(MoveRig& rig, Place to) {
  const auto allocation = rig.filled(2 * pipeline_chunks, gpu(0), 2, pipeline_seed);
  rig.move(*allocation, to);
  rig.move(*allocation, gpu(0));
  rig.memory().chunks().slow_calls().await_empty();  // Refills map memory, too.
  rig.forget_calls();
  return allocation;
}

void expect_whole(MoveRig& rig, const Allocation& allocation) {
  rig.expect_shown(allocation);
  EXPECT_EQ(rig.wrong(allocation, pipeline_seed), 0u);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.wrong_for(i, allocation, pipeline_seed), 0u) << i;
}

TEST(HeldPipeline, ShowsHostMemoryWhileItIsFilled) {
  std::map<Place, std::ptrdiff_t> waits;
  for (const Place to : {host(0), gpu(1)}) {
    MoveRig rig;
    rig.engine().prepare(gpu(0), to, 1, CopyUnder::nothing);
    const auto allocation = warm(rig, to);
    EXPECT_EQ(rig.move(*allocation, to).chunks_moved, static_cast<int>(pipeline_chunks));
    EXPECT_EQ(rig.calls(Call::copy), static_cast<int>(pipeline_chunks));
    EXPECT_EQ(shown_before_waiting(rig.trace()), 1) << "only one is incomplete at a time";
    waits[to] = waits_before_showing(rig.trace());
    expect_whole(rig, *allocation);
  }
  EXPECT_EQ(waits[host(0)] + 2, waits[gpu(1)]) << "until it is done, and for how it ended";
}

// What moves then is how calibrations measure copies and switches one by one.
TEST(HeldPipeline, ShowsNothingEarlyIfNothingRuns) {
  MoveRig rig;
  const auto allocation = warm(rig, host(0));
  MigrateOptions how;
  how.nothing_runs = true;
  EXPECT_EQ(rig.move(*allocation, host(0), how).chunks_moved, static_cast<int>(pipeline_chunks));
  EXPECT_EQ(waits_before_showing(rig.trace()), 2) << "for the first copy";
  expect_whole(rig, *allocation);
}

TEST(HeldPipeline, SwitchesWhatACopyEngineFillsOnceItIsCopied) {
  MoveRig rig;
  const auto allocation = warm(rig, gpu(1));
  rig.move(*allocation, gpu(1));
  EXPECT_EQ(rig.calls(Call::copy), static_cast<int>(pipeline_chunks)) << "in the program's context";
  EXPECT_EQ(shown_before_waiting(rig.trace()), 1);
  expect_whole(rig, *allocation);
}

// What a hold waits on may keep them from beginning.
TEST(HeldPipeline, CopiesByNoKernelsUnderAHold) {
  MoveRig rig;
  rig.engine().own_context(DeviceId{0});
  const auto allocation = warm(rig, gpu(1));
  EXPECT_EQ(rig.move(*allocation, gpu(1)).stop, StopKind::hold);
  EXPECT_EQ(rig.calls(Call::launch), 0);
  EXPECT_EQ(rig.calls(Call::copy), static_cast<int>(pipeline_chunks));
  expect_whole(rig, *allocation);
}

TEST(HeldPipeline, CopiesByKernelsForAsLongAsTheSwitchesTake) {
  MoveRig rig("test-2", {}, {}, true);
  for (const DeviceId device : rig.topology().devices()) {
    const SuspensionFinding found = decided_finding(rig.migrator(), rig.driver().clock(), device);
    ASSERT_EQ(found.state, SuspensionFinding::State::usable) << found.why;
  }
  const auto allocation = warm(rig, gpu(1));
  rig.move(*allocation, gpu(1));
  EXPECT_EQ(rig.calls(Call::launch), static_cast<int>(pipeline_chunks)) << "they are small";
  EXPECT_EQ(rig.calls(Call::copy), 0);
  EXPECT_EQ(shown_before_waiting(rig.trace()), static_cast<std::ptrdiff_t>(pipeline_chunks));
  expect_whole(rig, *allocation);
}

TEST(HeldPipeline, LeavesEverySlotCompleteWhateverFails) {
  int failed = 0;
  for (const Place to : {host(0), gpu(1)}) {
    for (const Call call :
         {Call::unmap, Call::map, Call::grant, Call::wait_event, Call::copy, Call::launch}) {
      for (int number = 0; number < 14; ++number) {
        SCOPED_TRACE(testing::Message()
                     << to_string(to) << ", " << to_string(call) << " " << number);
        MoveRig rig;
        rig.engine().own_context(DeviceId{0});
        const auto allocation = warm(rig, to);
        rig.fail({call}, {number});
        try {
          rig.move(*allocation, to);
        } catch (const Error& error) {
          ++failed;
          EXPECT_NE(error.report(), nullptr);
        }
        rig.fail_nothing();
        EXPECT_FALSE(allocation->poisoned());
        expect_whole(rig, *allocation);
        rig.move(*allocation, to);
        for (std::size_t slot = 0; slot < pipeline_chunks; ++slot)
          EXPECT_EQ(allocation->place(slot), to);
        expect_whole(rig, *allocation);
        check_settled(rig.memory());
      }
    }
  }
  EXPECT_GT(failed, 25);
}

// Shown slots must not be left to the program before their copies have ended.
TEST(HeldPipeline, CompletesWhatIsShownWhenALaterChunkFails) {
  MoveRig rig;
  const auto allocation = warm(rig, host(0));
  rig.fail({Call::map}, {2, 3});  // Of the third slot, and once more; then the source is shown.
  expect_error(ErrorKind::out_of_memory, [&] { rig.move(*allocation, host(0)); });
  rig.fail_nothing();
  EXPECT_EQ(allocation->place(0), host(0));
  EXPECT_EQ(allocation->place(1), host(0));
  EXPECT_EQ(allocation->place(2), gpu(0));
  EXPECT_EQ(allocation->place(3), gpu(0));
  expect_whole(rig, *allocation);
}

}  // namespace
}  // namespace vma
