// Goal: memory with a tag leaves HBM and returns with its addresses and bytes, whatever call fails.
// Method: the public interface on simulated machines; FaultDriver makes each call fail in turn.
#include "support/drivers/fault_driver.hpp"
#include "machine/machine_file.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "runtime/runtime_parts.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/service_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

std::uint64_t* tagged(Runtime& runtime, std::uint64_t chunks, Place at, const std::string& tag,
                      std::uint64_t seed, bool movable = true) {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  options.tag = tag;
  options.movable = movable;
  auto* words = static_cast<std::uint64_t*>(runtime.alloc(chunks * chunk_bytes, at, options));
  std::vector<std::uint64_t> pattern(chunks * chunk_bytes / 8);
  std::iota(pattern.begin(), pattern.end(), seed);
  runtime.write(words, std::as_bytes(std::span(pattern)));
  return words;
}

std::uint64_t bytes_at(Runtime& runtime, const void* pointer, Place at) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : runtime.where(pointer)) bytes += extent.at == at ? extent.bytes : 0;
  return bytes;
}

class ParkTest : public testing::Test {
 protected:
  Runtime& runtime() { return rig_.runtime(); }
  std::uint64_t* filled(std::uint64_t chunks, Place at, std::uint64_t seed) {
    return tagged(runtime(), chunks, at, "model", seed);
  }
  void expect_whole(std::uint64_t* words, std::uint64_t chunks, std::uint64_t seed) {
    const std::uint64_t count = chunks * chunk_bytes / 8;
    EXPECT_EQ(rig_.wrong(words, count, seed), 0u);
    for (int gpu = 0; gpu < rig_.gpus(); ++gpu) {
      EXPECT_EQ(rig_.wrong_for(gpu, words, count, seed), 0u);
    }
  }
  std::uint64_t held(Place at) {
    const auto account = parts_of(runtime()).machinery->memory.chunks().ledger().account(at);
    return account.allocated_bytes + account.cached_bytes;
  }

  RuntimeRig rig_;
};

TEST_F(ParkTest, TakesEverythingOfATagOutOfHbmAndBringsItBack) {
  std::uint64_t* other = tagged(runtime(), 2, gpu(0), "other", 50);
  const std::uint64_t before[2] = {held(gpu(0)), held(gpu(1))};
  std::uint64_t* spread = filled(6, gpu(0), 1);
  runtime().migrate(spread, chunk_bytes, 2 * chunk_bytes, gpu(1));
  runtime().migrate(spread, 5 * chunk_bytes, chunk_bytes, host(0));
  runtime().trim(gpu(0));
  std::uint64_t* plain = filled(3, gpu(1), 9);
  const std::vector<Extent> places = runtime().where(spread);

  const ParkReport parked = runtime().park("model");
  EXPECT_EQ(parked.allocations, 2u);
  EXPECT_EQ(parked.bytes_moved, 8 * chunk_bytes);
  EXPECT_TRUE(parked.stayed.empty());
  EXPECT_GT(parked.wall.count(), 0);
  EXPECT_EQ(bytes_at(runtime(), spread, host(0)), 6 * chunk_bytes);
  EXPECT_EQ(bytes_at(runtime(), plain, host(0)), 3 * chunk_bytes);
  EXPECT_EQ(bytes_at(runtime(), other, gpu(0)), 2 * chunk_bytes);
  EXPECT_EQ(held(gpu(0)), before[0]) << "it is the driver's, not cached";
  EXPECT_EQ(held(gpu(1)), before[1]);
  EXPECT_TRUE(runtime().is_parked("model"));
  EXPECT_FALSE(runtime().is_parked("other"));
  EXPECT_EQ(runtime().stats().parked, 2u);
  expect_whole(spread, 6, 1);
  expect_whole(plain, 3, 9);

  const ParkReport resumed = runtime().resume("model");
  EXPECT_EQ(resumed.allocations, 2u);
  EXPECT_EQ(resumed.bytes_moved, 8 * chunk_bytes);
  EXPECT_EQ(resumed.bytes_elsewhere, 0u);
  EXPECT_TRUE(resumed.stayed.empty());
  const std::vector<Extent> again = runtime().where(spread);
  ASSERT_EQ(again.size(), places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(again[i].at, places[i].at);
    EXPECT_EQ(again[i].offset, places[i].offset);
  }
  EXPECT_EQ(bytes_at(runtime(), plain, gpu(1)), 3 * chunk_bytes);
  EXPECT_FALSE(runtime().is_parked("model"));
  EXPECT_EQ(runtime().stats().parked, 0u);
  expect_whole(spread, 6, 1);
  expect_whole(plain, 3, 9);
  rig_.check_invariants();
}

// Every second chunk is at another GPU. The hooks of all chunks under one hold run together.
TEST_F(ParkTest, AnAllocationIsDroppedUnderOneHoldWhereverItLies) {
  std::uint64_t* words = filled(4, gpu(0), 1);
  for (const std::uint64_t chunk : {1u, 3u}) {
    runtime().migrate(words, chunk * chunk_bytes, chunk_bytes, gpu(1));
  }
  std::string told;
  MoveHooks hooks;
  hooks.before = [&](const MoveEvent&) { told += '('; };
  hooks.after = [&](const MoveEvent&) { told += ')'; };
  const MoveHookRegistration registration = runtime().on_move(words, hooks);
  ParkOptions dropping;
  dropping.contents = ParkContents::drop;
  EXPECT_EQ(runtime().park("model", dropping).bytes_dropped, 4 * chunk_bytes);
  EXPECT_EQ(told, "(((())))");
  EXPECT_EQ(runtime().resume("model").bytes_elsewhere, 0u);
  EXPECT_EQ(runtime().where(words).size(), 4u) << "each comes back to its own place";
}

TEST_F(ParkTest, MakesNoHostMemoryTheSecondTime) {
  filled(6, gpu(0), 1);
  runtime().park("model");
  runtime().resume("model");
  parts_of(runtime()).machinery->memory.chunks().slow_calls().await_empty();
  Memory& memory = parts_of(runtime()).machinery->memory;
  EXPECT_GE(memory.chunks().cache().count(host(0), chunk_bytes), 6u);
  const std::uint64_t host_bytes = held(host(0));
  runtime().park("model");
  EXPECT_LE(held(host(0)), host_bytes + 2 * chunk_bytes) << "but what is made ahead of need";
  rig_.check_invariants();
}

class ParkStop : public testing::TestWithParam<Call> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ParkStop, testing::Values(Call::suspend, Call::hold_context));

TEST_P(ParkStop, ComesAfterAllHostMemoryIsMade) {
  RuntimeOptions options;
  options.host_cache_bytes = 0;
  options.suspend = GetParam() == Call::suspend;
  ServiceRig rig("test-2", options);
  for (const int number : {0, 1}) {  // It suspends, too.
    parts_of(rig.runtime()).machinery->migrator.check_suspension(DeviceId{number});
  }
  tagged(rig.runtime(), 3, gpu(0), "model", 1);
  tagged(rig.runtime(), 4, gpu(1), "model", 9);
  rig.trace().clear();
  EXPECT_EQ(rig.runtime().park("model").bytes_moved, 7 * chunk_bytes);
  const std::vector<TracedCall> calls = rig.trace().calls();
  const auto of = [](Call wanted) {
    return [wanted](const TracedCall& one) { return one.call == wanted; };
  };
  const auto first_stop = std::ranges::find_if(calls, of(GetParam()));
  EXPECT_NE(first_stop, calls.end());
  EXPECT_GE(std::count_if(calls.begin(), first_stop, of(Call::create)), 7);
}

TEST_F(ParkTest, StopsOnlyAttachedStreamsWhereAsked) {
  std::uint64_t* words = filled(4, gpu(0), 1);
  ParkOptions options;
  options.how.scope = StopScope::attached;
  EXPECT_EQ(runtime().park("model", options).bytes_moved, 4 * chunk_bytes) << "none need be";
  EXPECT_EQ(runtime().resume("model", options).bytes_moved, 4 * chunk_bytes);
  std::vector<AttachedStream> attached;
  for (int gpu = 0; gpu < rig_.gpus(); ++gpu) attached.emplace_back(runtime(), rig_.stream(gpu));
  options.how.deadline = std::chrono::seconds(30);
  const std::uint64_t hbm = held(gpu(0));
  EXPECT_EQ(runtime().park("model", options).bytes_moved, 4 * chunk_bytes);
  EXPECT_EQ(held(gpu(0)), hbm - 4 * chunk_bytes);
  EXPECT_EQ(runtime().resume("model", options).bytes_moved, 4 * chunk_bytes);
  EXPECT_EQ(rig_.place(words), gpu(0));
  expect_whole(words, 4, 1);
  rig_.check_invariants();
}

// In a process of its own, where what is noted stays.
TEST_F(ParkTest, LooksForCopiesAndGoesOnWhereSomeHaveNoGuards) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        static std::atomic<int> looks{0};
        filled(4, gpu(0), 1);
        std::vector<AttachedStream> attached;
        for (int gpu = 0; gpu < rig_.gpus(); ++gpu) {
          attached.emplace_back(runtime(), rig_.stream(gpu));
        }
        CopyScopes::process().note_unguarded("a test says so");
        CopyScopes::process().guarded_by(+[]() noexcept { ++looks; });
        ParkOptions options;
        options.how.scope = StopScope::attached;
        options.how.deadline = std::chrono::seconds(30);
        bool good = runtime().park("model", options).bytes_moved == 4 * chunk_bytes && looks == 1;
        good = good && runtime().resume("model", options).bytes_moved == 4 * chunk_bytes;
        std::_Exit(good && looks == 2 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(ParkTest, LeavesAndReportsWhatMustNotMove) {
  std::uint64_t* pinned = filled(2, gpu(0), 1);
  std::uint64_t* fixed = tagged(runtime(), 1, gpu(0), "model", 5, false);
  std::uint64_t* free = filled(3, gpu(0), 9);
  std::optional<Pin> pin(runtime().pin(pinned));
  ParkReport report = runtime().park("model");
  EXPECT_EQ(report.allocations, 3u);
  EXPECT_EQ(report.bytes_moved, 3 * chunk_bytes);
  ASSERT_EQ(report.stayed.size(), 2u);
  std::map<void*, std::string> reasons;
  for (const auto& stayed : report.stayed) reasons[stayed.pointer] = stayed.reason;
  EXPECT_NE(reasons[pinned].find("is pinned"), std::string::npos) << reasons[pinned];
  EXPECT_NE(reasons[fixed].find("movable = false"), std::string::npos) << reasons[fixed];
  EXPECT_EQ(runtime().stats().parked, 1u);
  pin.reset();
  report = runtime().park("model");  // Continues where the first call stopped.
  EXPECT_EQ(report.bytes_moved, 2 * chunk_bytes);
  EXPECT_EQ(runtime().stats().parked, 2u);
  EXPECT_EQ(runtime().resume("model").bytes_moved, 5 * chunk_bytes);
  EXPECT_EQ(rig_.place(pinned), gpu(0));
  EXPECT_EQ(rig_.place(free), gpu(0));
  expect_whole(free, 3, 9);
}

TEST_F(ParkTest, BringsBackWhatFindsRoomAndKeepsTheRestParked) {
  std::uint64_t* large = filled(4, gpu(0), 1);
  runtime().park("model");
  Memory& memory = parts_of(runtime()).machinery->memory;
  const auto own = [&](Place at) { return memory.chunks().ledger().account(at).own_bytes; };
  runtime().trim(gpu(0));
  runtime().trim(gpu(1));
  runtime().set_capacity(gpu(0), own(gpu(0)) + 3 * chunk_bytes);
  runtime().set_capacity(gpu(1), own(gpu(1)) + 3 * chunk_bytes);
  ParkReport report = runtime().resume("model");
  EXPECT_EQ(report.bytes_moved, 0u);
  ASSERT_EQ(report.stayed.size(), 1u);
  EXPECT_NE(report.stayed[0].reason.find("out_of_memory"), std::string::npos);
  EXPECT_TRUE(runtime().is_parked("model"));
  EXPECT_EQ(rig_.place(large), host(0));
  runtime().set_capacity(gpu(1), own(gpu(1)) + 4 * chunk_bytes);
  report = runtime().resume("model");
  EXPECT_TRUE(report.stayed.empty());
  EXPECT_EQ(report.bytes_elsewhere, 4 * chunk_bytes);
  EXPECT_EQ(rig_.place(large), gpu(1)) << "where there is room";
  EXPECT_FALSE(runtime().is_parked("model"));
  runtime().set_capacity(gpu(0), SIZE_MAX);
  runtime().set_capacity(gpu(1), SIZE_MAX);
  expect_whole(large, 4, 1);
  rig_.check_invariants();
}

TEST_F(ParkTest, AParkedAllocationIsUsedMovedAndFreedAsAnyOther) {
  std::uint64_t* moved = filled(2, gpu(0), 1);
  std::uint64_t* freed = filled(2, gpu(0), 5);
  runtime().park("model");
  rig_.fill_by(1, moved, 2 * chunk_bytes / 8, 77);
  runtime().migrate(moved, 0, chunk_bytes, gpu(1));
  runtime().free(freed);
  EXPECT_EQ(runtime().stats().parked, 1u);
  EXPECT_EQ(runtime().resume("model").bytes_moved, chunk_bytes);
  EXPECT_EQ(bytes_at(runtime(), moved, gpu(1)), chunk_bytes) << "it was moved since";
  EXPECT_EQ(bytes_at(runtime(), moved, gpu(0)), chunk_bytes);
  expect_whole(moved, 2, 77);
  runtime().park("model");
  runtime().free(moved);
  EXPECT_FALSE(runtime().is_parked("model"));
  rig_.check_invariants();
}

TEST_F(ParkTest, AnswersClearlyWhereThereIsNothingToDo) {
  const auto invalid = [](const std::function<void()>& body) {
    EXPECT_EQ(kind_of_error(body), ErrorKind::invalid_argument);
  };
  invalid([&] { runtime().park(""); });
  invalid([&] { runtime().park("nobody"); });
  invalid([&] { runtime().resume("nobody"); });
  filled(2, gpu(0), 1);
  invalid([&] { runtime().resume("model"); });
  ParkOptions options;
  options.to = gpu(1);
  invalid([&] { runtime().park("model", options); });
  options.to = host(7);
  invalid([&] { runtime().park("model", options); });
  EXPECT_EQ(runtime().park("model").bytes_moved, 2 * chunk_bytes);
  const ParkReport twice = runtime().park("model");
  EXPECT_EQ(twice.allocations, 1u);
  EXPECT_EQ(twice.bytes_moved, 0u);
  EXPECT_TRUE(twice.stayed.empty());
  EXPECT_EQ(runtime().resume("model").bytes_moved, 2 * chunk_bytes);
}

/// A runtime with a driver whose calls can be made to fail.
struct FaultyRuntime {
  FaultyRuntime() : machine(load_machine("test-2")) {
    auto driver = std::make_unique<FaultDriver>(machine);
    faults = driver.get();
    runtime =
        unique_runtime_of(std::make_unique<RuntimeParts>(std::move(driver), resolve_settings({})));
  }
  SimDriver machine;
  FaultDriver* faults = nullptr;
  std::unique_ptr<Runtime> runtime;
};

TEST(ParkFaults, AnySingleFailureLosesNothingAndIsMadeGoodByASecondCall) {
  FaultyRuntime faulty;
  Runtime& runtime = *faulty.runtime;
  std::uint64_t* first = tagged(runtime, 2, gpu(0), "model", 1);
  std::uint64_t* second = tagged(runtime, 3, gpu(1), "model", 9);
  const auto expect_whole = [&] {
    for (const auto& [words, chunks, seed] : {std::tuple(first, 2, 1), std::tuple(second, 3, 9)}) {
      std::vector<std::uint64_t> now(chunks * chunk_bytes / 8);
      runtime.read(words, std::as_writable_bytes(std::span(now)));
      std::uint64_t wrong = 0;
      for (std::size_t i = 0; i < now.size(); ++i) wrong += now[i] != seed + i;
      EXPECT_EQ(wrong, 0u);
    }
  };
  int failures = 0;
  for (int number = 0; number < 1000; ++number) {
    SCOPED_TRACE(number);
    runtime.trim(host(0));
    faulty.faults->count_only({});
    faulty.faults->fail_calls({number});
    std::size_t stayed = 0;
    stayed += runtime.park("model").stayed.size();
    if (runtime.is_parked("model")) stayed += runtime.resume("model").stayed.size();
    const bool fired = faulty.faults->fired() > 0;
    faulty.faults->fail_calls({});
    failures += stayed > 0 ? 1 : 0;
    expect_whole();
    if (runtime.stats().poisoned > 0 || testing::Test::HasFailure()) break;
    if (runtime.is_parked("model")) {
      EXPECT_TRUE(runtime.resume("model").stayed.empty());
    }
    // If the driver once reports a GPU as full, the other one is used.
    EXPECT_EQ(bytes_at(runtime, first, host(0)) + bytes_at(runtime, second, host(0)), 0u);
    if (!fired) {
      EXPECT_EQ(bytes_at(runtime, first, gpu(0)), 2 * chunk_bytes);
      EXPECT_EQ(bytes_at(runtime, second, gpu(1)), 3 * chunk_bytes);
      break;
    }
    runtime.migrate(first, gpu(0));
    runtime.migrate(second, gpu(1));
  }
  EXPECT_GT(failures, 10) << "the sweep has hit something";
  EXPECT_EQ(runtime.stats().poisoned, 0u) << "one failure poisons nothing";
  check_settled(parts_of(runtime).machinery->memory);
}

}  // namespace
}  // namespace vma
