// Goal: memory that is parked without its contents is released to the driver until it is resumed,
// at the same addresses and filled with zeros; meanwhile every call reports this. Method: the
// public interface on simulated machines whose fresh memory is filled with junk; FaultDriver makes
// each call fail in turn.
#include "support/drivers/fault_driver.hpp"
#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t chunk_words = chunk_bytes / 8;

ParkOptions dropping() {
  ParkOptions options;
  options.contents = ParkContents::drop;
  return options;
}

std::uint64_t* tagged(Runtime& runtime, std::uint64_t chunks, Place at, std::uint64_t seed,
                      const std::string& tag = "model") {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  options.tag = tag;
  auto* words = static_cast<std::uint64_t*>(runtime.alloc(chunks * chunk_bytes, at, options));
  std::vector<std::uint64_t> pattern(chunks * chunk_words);
  std::iota(pattern.begin(), pattern.end(), seed);
  runtime.write(words, std::as_bytes(std::span(pattern)));
  return words;
}

std::uint64_t words_not_zero(Runtime& runtime, const std::uint64_t* words, std::uint64_t count) {
  std::vector<std::uint64_t> now(count, 1);
  runtime.read(words, std::as_writable_bytes(std::span(now)));
  return static_cast<std::uint64_t>(
      std::ranges::count_if(now, [](std::uint64_t word) { return word != 0; }));
}

std::uint64_t dropped_bytes(Runtime& runtime, const void* pointer) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : runtime.where(pointer)) bytes += extent.dropped ? extent.bytes : 0;
  return bytes;
}

/// Long limits, so that busy computers give up no move.
RuntimeOptions at_leisure() {
  RuntimeOptions options;
  options.gate_limit = options.stall_budget = std::chrono::seconds(1);
  options.pressure_limit = std::chrono::seconds(60);
  return options;
}

class DropTest : public testing::Test {
 protected:
  Runtime& runtime() { return rig_.runtime(); }
  Memory& memory() { return parts_of(runtime()).machinery->memory; }
  std::uint64_t held(Place at) {
    memory().chunks().slow_calls().await_empty();  // Host memory is made ahead meanwhile.
    const auto account = memory().chunks().ledger().account(at);
    return account.allocated_bytes + account.cached_bytes;
  }
  BoundStream bound_stream() {
    const auto handle = StreamHandle{reinterpret_cast<std::uint64_t>(rig_.stream(0))};
    return {rig_.machine().stream_context(handle), handle};
  }
  /// Checks that every GPU can read and write it.
  void expect_usable(std::uint64_t* words, std::uint64_t chunks) {
    for (int gpu = 0; gpu < rig_.gpus(); ++gpu) {
      rig_.fill_by(gpu, words, chunks * chunk_words, 100);
      EXPECT_EQ(rig_.wrong_for(1 - gpu, words, chunks * chunk_words, 100), 0u);
    }
  }

  RuntimeRig rig_{"test-2", at_leisure()};
};

TEST_F(DropTest, GivesHbmBackAndReturnsAsZerosAtTheSameAddressAndPlace) {
  std::uint64_t* other = tagged(runtime(), 2, gpu(0), 50, "other");
  const std::uint64_t hbm[2] = {held(gpu(0)), held(gpu(1))};
  std::uint64_t* words = tagged(runtime(), 6, gpu(0), 1);
  runtime().migrate(words, chunk_bytes, 2 * chunk_bytes, gpu(1));
  runtime().migrate(words, 5 * chunk_bytes, chunk_bytes, host(0));
  runtime().trim(gpu(0));
  const std::vector<Extent> places = runtime().where(words);
  const std::uint64_t host_bytes = held(host(0));

  const ParkReport parked = runtime().park("model", dropping());
  EXPECT_EQ(parked.bytes_moved, 5 * chunk_bytes);
  EXPECT_EQ(parked.bytes_dropped, 5 * chunk_bytes);
  EXPECT_TRUE(parked.stayed.empty());
  EXPECT_EQ(held(gpu(0)), hbm[0]) << "it is the driver's, not cached";
  EXPECT_EQ(held(gpu(1)), hbm[1]);
  EXPECT_EQ(held(host(0)), host_bytes) << "nothing was put away";
  EXPECT_EQ(dropped_bytes(runtime(), words), 5 * chunk_bytes);
  EXPECT_EQ(runtime().stats().dropped_bytes, 5 * chunk_bytes);
  EXPECT_EQ(runtime().stats().parked, 1u);
  EXPECT_TRUE(runtime().is_parked("model"));
  EXPECT_EQ(rig_.wrong(words + 5 * chunk_words, chunk_words, 1 + 5 * chunk_words), 0u)
      << "what lay at a host node has its bytes";
  rig_.check_invariants();

  const ParkReport resumed = runtime().resume("model");
  EXPECT_EQ(resumed.bytes_moved, 5 * chunk_bytes);
  EXPECT_EQ(resumed.bytes_dropped, 5 * chunk_bytes);
  EXPECT_EQ(resumed.bytes_elsewhere, 0u);
  const std::vector<Extent> again = runtime().where(words);
  ASSERT_EQ(again.size(), places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(again[i].at, places[i].at);
    EXPECT_EQ(again[i].offset, places[i].offset);
    EXPECT_FALSE(again[i].dropped);
  }
  EXPECT_EQ(words_not_zero(runtime(), words, 5 * chunk_words), 0u);
  EXPECT_FALSE(runtime().is_parked("model"));
  EXPECT_EQ(runtime().stats().dropped_bytes, 0u);
  expect_usable(words, 6);
  EXPECT_EQ(rig_.wrong(other, 2 * chunk_words, 50), 0u);
  rig_.check_invariants();
}

TEST_F(DropTest, UntilItIsResumedEveryUseIsRefusedByName) {
  std::uint64_t* words = tagged(runtime(), 2, gpu(0), 1);
  std::uint64_t* freed = tagged(runtime(), 2, gpu(1), 5);
  std::uint64_t* freed_later = tagged(runtime(), 1, gpu(1), 5);
  runtime().attach(rig_.stream(0));
  runtime().park("model", dropping());
  std::uint64_t word = 0;
  const auto refused = [](const std::function<void()>& body) {
    EXPECT_EQ(kind_of_error(body), ErrorKind::dropped);
  };
  refused([&] { runtime().read(words + 3, std::as_writable_bytes(std::span(&word, 1))); });
  refused([&] { runtime().write(words, std::as_bytes(std::span(&word, 1))); });
  refused([&] { runtime().migrate(words, gpu(1)); });
  refused([&] { runtime().migrate(words, gpu(0)); });
  refused([&] { runtime().migrate(words, chunk_bytes, chunk_bytes, host(0)); });
  refused([&] { runtime().migrate_async(words, gpu(1)); });
  refused([&] { static_cast<void>(runtime().pin(words)); });
  refused([&] { static_cast<void>(runtime().host_view(words, 8)); });
  refused([&] { runtime().note_export(words); });
  runtime().record_use(words, chunk_bytes, gpu(1));
  EXPECT_EQ(runtime().size(words), 2 * chunk_bytes);

  const ParkReport again = runtime().park("model");
  EXPECT_EQ(again.bytes_moved, 0u) << "there is nothing to keep";
  EXPECT_EQ(runtime().park("model", dropping()).bytes_dropped, 0u);
  runtime().free(freed);
  runtime().free_async(freed_later, rig_.stream(1));
  rig_.check_invariants();
  EXPECT_EQ(runtime().stats().parked, 1u);
  EXPECT_EQ(runtime().resume("model").bytes_moved, 2 * chunk_bytes);
  runtime().migrate(words, gpu(1));
  expect_usable(words, 2);
  runtime().park("model", dropping());
  runtime().free(words);
  EXPECT_FALSE(runtime().is_parked("model"));
  EXPECT_EQ(runtime().stats().dropped_bytes, 0u);
  rig_.check_invariants();
}

TEST_F(DropTest, GivesUpWhatWasParkedWithItsBytes) {
  std::uint64_t* words = tagged(runtime(), 3, gpu(1), 1);
  runtime().park("model");
  const std::uint64_t allocated = memory().chunks().ledger().account(host(0)).allocated_bytes;
  const ParkReport report = runtime().park("model", dropping());
  EXPECT_EQ(report.bytes_dropped, 3 * chunk_bytes);
  EXPECT_EQ(memory().chunks().ledger().account(host(0)).allocated_bytes,
            allocated - 3 * chunk_bytes);
  EXPECT_EQ(runtime().resume("model").bytes_dropped, 3 * chunk_bytes);
  EXPECT_EQ(rig_.place(words), gpu(1)) << "where it came from first";
  EXPECT_EQ(words_not_zero(runtime(), words, 3 * chunk_words), 0u);
  expect_usable(words, 3);
  rig_.check_invariants();
}

TEST_F(DropTest, LeavesWhatIsPinnedWithItsBytes) {
  std::uint64_t* pinned = tagged(runtime(), 2, gpu(0), 1);
  std::uint64_t* loose = tagged(runtime(), 1, gpu(0), 9);
  {
    const Pin pin = runtime().pin(pinned);
    const ParkReport report = runtime().park("model", dropping());
    EXPECT_EQ(report.bytes_dropped, chunk_bytes);
    ASSERT_EQ(report.stayed.size(), 1u);
    EXPECT_EQ(report.stayed[0].pointer, pinned);
    EXPECT_EQ(report.stayed[0].bytes, 2 * chunk_bytes);
  }
  EXPECT_EQ(rig_.wrong(pinned, 2 * chunk_words, 1), 0u);
  EXPECT_EQ(dropped_bytes(runtime(), loose), chunk_bytes);
  runtime().resume("model");
  EXPECT_EQ(rig_.wrong(pinned, 2 * chunk_words, 1), 0u);
}

TEST_F(DropTest, StaysParkedWithoutRoomAndIsResumedOnceThereIsSome) {
  std::uint64_t* words = tagged(runtime(), 4, gpu(0), 1);
  runtime().park("model", dropping());
  const auto own = [&](Place at) { return memory().chunks().ledger().account(at).own_bytes; };
  runtime().trim(gpu(0));
  runtime().trim(gpu(1));
  runtime().set_capacity(gpu(0), own(gpu(0)) + 3 * chunk_bytes);
  runtime().set_capacity(gpu(1), own(gpu(1)) + 3 * chunk_bytes);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const ParkReport report = runtime().resume("model");
    EXPECT_EQ(report.bytes_moved, 0u) << "all of a run or none";
    ASSERT_EQ(report.stayed.size(), 1u);
    EXPECT_NE(report.stayed[0].reason.find("out_of_memory"), std::string::npos);
    EXPECT_EQ(report.stayed[0].bytes, 4 * chunk_bytes);
    EXPECT_TRUE(runtime().is_parked("model"));
    EXPECT_EQ(dropped_bytes(runtime(), words), 4 * chunk_bytes);
    rig_.check_invariants();
  }
  runtime().set_capacity(gpu(1), own(gpu(1)) + 4 * chunk_bytes);
  const ParkReport report = runtime().resume("model");
  EXPECT_EQ(report.bytes_elsewhere, 4 * chunk_bytes);
  EXPECT_EQ(rig_.place(words), gpu(1));
  runtime().set_capacity(gpu(0), SIZE_MAX);
  runtime().set_capacity(gpu(1), SIZE_MAX);
  EXPECT_EQ(words_not_zero(runtime(), words, 4 * chunk_words), 0u);
  expect_usable(words, 4);
}

TEST_F(DropTest, RoomForWhatIsResumedIsMadeAsForAnAllocation) {
  std::uint64_t* words = tagged(runtime(), 4, gpu(0), 1);
  runtime().park("model", dropping());
  std::uint64_t* in_the_way = tagged(runtime(), 3, gpu(0), 7, "other");
  std::vector<AttachedStream> attached;
  for (int gpu = 0; gpu < rig_.gpus(); ++gpu) attached.emplace_back(runtime(), rig_.stream(gpu));
  runtime().trim(gpu(0));
  const std::uint64_t own = memory().chunks().ledger().account(gpu(0)).own_bytes;
  runtime().set_capacity(gpu(0), own + 4 * chunk_bytes);
  EXPECT_EQ(runtime().resume("model").bytes_elsewhere, 0u);
  EXPECT_EQ(rig_.place(words), gpu(0));
  EXPECT_NE(rig_.place(in_the_way), gpu(0));
  EXPECT_EQ(rig_.wrong(in_the_way, 3 * chunk_words, 7), 0u);
  runtime().set_capacity(gpu(0), SIZE_MAX);
}

TEST_F(DropTest, AGraphCapturedBeforeReplaysAfterwards) {
  std::uint64_t* words = tagged(runtime(), 2, gpu(0), 1);
  Driver& driver = rig_.machine();
  const Stream stream = rig_.stream(0);
  const BoundStream bound = bound_stream();
  driver.begin_capture(bound, CaptureMode::relaxed);
  runtime().launch(stream, add_kernel(), {}, {},
                   KernelArguments::of(words, 2 * chunk_words, std::uint64_t{1}));
  const GraphHandle graph = driver.end_capture(bound);
  const ExecGraphHandle ready = driver.instantiate(graph);
  driver.launch_graph(bound, ready);
  runtime().synchronize(stream);
  EXPECT_EQ(rig_.wrong(words, 2 * chunk_words, 2), 0u);
  runtime().park("model", dropping());
  runtime().resume("model");
  rig_.write(words, 2 * chunk_words, 40);
  driver.launch_graph(bound, ready);
  runtime().synchronize(stream);
  EXPECT_EQ(rig_.wrong_for(1, words, 2 * chunk_words, 41), 0u);
  driver.destroy_exec_graph(ready);
  driver.destroy_graph(graph);
}

// The stream waits for a word, so the earlier work can end only once that is written.
TEST_F(DropTest, WorkThatWasSubmittedBeforeHasFinished) {
  std::uint64_t* words = tagged(runtime(), 2, gpu(0), 1);
  Driver& driver = rig_.machine();
  const BoundStream bound = bound_stream();
  auto* opened = static_cast<std::uint64_t*>(driver.allocate_pinned(bound.context, 8));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(opened), 1};
  driver.batch(bound, {&wait, 1});
  runtime().launch(rig_.stream(0), fill_kernel(), {}, {},
                   KernelArguments::of(words, 2 * chunk_words, std::uint64_t{3}));
  ParkOptions briefly = dropping();
  briefly.how.deadline = std::chrono::milliseconds(50);
  const ParkReport report = runtime().park("model", briefly);
  std::atomic_ref(*opened).store(1);
  EXPECT_EQ(report.bytes_dropped, 0u);
  ASSERT_EQ(report.stayed.size(), 1u);
  EXPECT_NE(report.stayed[0].reason.find("did not end within the limit"), std::string::npos);
  // Would fail with an illegal address if the memory were gone.
  runtime().synchronize(rig_.stream(0));
  EXPECT_EQ(rig_.wrong(words, 2 * chunk_words, 3), 0u);
  EXPECT_EQ(runtime().park("model", dropping()).bytes_dropped, 2 * chunk_bytes);
  driver.free_pinned(bound.context, opened);
}

TEST_F(DropTest, WorkThatUsesItAfterwardsFaults) {
  std::uint64_t* words = tagged(runtime(), 2, gpu(0), 1);
  runtime().park("model", dropping());
  runtime().launch(rig_.stream(0), fill_kernel(), {}, {},
                   KernelArguments::of(words, chunk_words, std::uint64_t{3}));
  EXPECT_EQ(kind_of_error([&] { runtime().synchronize(rig_.stream(0)); }),
            ErrorKind::driver_failure);
}

TEST_F(DropTest, HooksHearThatTheMemoryIsGoneAndOfTheNext) {
  std::uint64_t* words = tagged(runtime(), 1, gpu(1), 1);
  std::vector<MoveEvent> before, after;
  MoveHooks hooks;
  hooks.before = [&](const MoveEvent& event) { before.push_back(event); };
  hooks.after = [&](const MoveEvent& event) { after.push_back(event); };
  const MoveHookRegistration registration = runtime().on_move(words, hooks);
  runtime().note_export(words);
  runtime().park("model", dropping());
  ASSERT_EQ(before.size(), 1u);
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(before[0].from, gpu(1));
  EXPECT_TRUE(after[0].moved && after[0].dropped);
  runtime().resume("model");
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(before.size(), 2u);
  EXPECT_TRUE(after[1].moved && !after[1].dropped);
  EXPECT_EQ(after[1].to, gpu(1));
  EXPECT_GT(after[1].generation, after[0].generation);
}

TEST_F(DropTest, ACleanCopyOfBeforeIsNoCopyOfWhatComesBack) {
  std::uint64_t* words = tagged(runtime(), 2, host(0), 1);
  const ReadOnly scope = runtime().read_only(words);
  MigrateOptions keeping;
  keeping.keep_clean_copy = true;
  EXPECT_EQ(runtime().migrate(words, gpu(0), keeping).copies_kept, 2);
  EXPECT_EQ(runtime().park("model", dropping()).bytes_dropped, 2 * chunk_bytes);
  EXPECT_EQ(runtime().stats().copies_dropped, 2u);
  runtime().resume("model");
  EXPECT_EQ(runtime().migrate(words, host(0)).bytes_remapped, 0u);
  EXPECT_EQ(words_not_zero(runtime(), words, 2 * chunk_words), 0u);
}

TEST_F(DropTest, AReadOnlyScopeThatSpansItIsKept) {
  std::uint64_t* words = tagged(runtime(), 1, gpu(0), 1);
  {
    const ReadOnly scope = runtime().read_only(words);
    runtime().park("model", dropping());
    runtime().resume("model");
    EXPECT_EQ(rig_.machine().access(address_of(words), gpu(1)), Access::read);
  }
  EXPECT_EQ(rig_.machine().access(address_of(words), gpu(1)), Access::read_write);
  expect_usable(words, 1);
}

TEST_F(DropTest, IsNotDoneAtGates) {
  std::uint64_t* words = tagged(runtime(), 1, gpu(0), 1);
  ParkOptions options = dropping();
  options.how.scope = StopScope::attached;
  EXPECT_EQ(kind_of_error([&] { runtime().park("model", options); }), ErrorKind::unsupported);
  EXPECT_FALSE(runtime().is_parked("model"));
  options.how.nothing_runs = true;  // The caller's responsibility.
  EXPECT_EQ(runtime().park("model", options).bytes_dropped, chunk_bytes);
  runtime().resume("model");
  expect_usable(words, 1);
}

/// A runtime with a driver whose calls can be made to fail, and two allocations with the same tag.
struct FaultyDrop {
  FaultyDrop() : machine(load_machine("test-2")) {
    auto driver = std::make_unique<FaultDriver>(machine);
    faults = driver.get();
    RuntimeOptions options;
    options.pressure_limit = std::chrono::milliseconds(0);  // What a fault calls full stays full.
    runtime = unique_runtime_of(
        std::make_unique<RuntimeParts>(std::move(driver), resolve_settings(options)));
    words[0] = tagged(*runtime, 2, gpu(0), 1);
    words[1] = tagged(*runtime, 3, gpu(1), 1);
    runtime->park("model", dropping());  // Creates everything that only the first use needs.
    runtime->resume("model");
  }
  Memory& memory() { return parts_of(*runtime).machinery->memory; }

  /// Checks that each chunk is dropped, or has all of its bytes or zeros, and that the driver's
  /// view agrees.
  void check(std::uint64_t seed) {
    for (int which = 0; which < 2; ++which) {
      for (const Extent& extent : runtime->where(words[which])) {
        const Address begin = address_of(words[which]) + extent.offset;
        if (extent.dropped) {
          EXPECT_THROW(machine.pointer_info(begin), Error) << "nothing is mapped there";
          continue;
        }
        EXPECT_EQ(machine.access(begin, gpu(0)), Access::read_write);
        EXPECT_EQ(machine.access(begin, gpu(1)), Access::read_write);
        std::vector<std::uint64_t> now(extent.bytes / 8);
        const std::uint64_t first = extent.offset / 8;
        runtime->read(words[which] + first, std::as_writable_bytes(std::span(now)));
        for (std::uint64_t i = 0; i < now.size(); ++i) {
          if (now[i] == 0 || now[i] == seed + first + i) continue;
          ADD_FAILURE() << "word " << first + i << " is " << now[i];
          break;
        }
      }
    }
    memory().chunks().slow_calls().await_empty();
    memory().check_invariants();
  }
  void fill(std::uint64_t seed) {
    for (const auto& [which, chunks] : {std::pair(0, 2), std::pair(1, 3)}) {
      std::vector<std::uint64_t> pattern(chunks * chunk_words);
      std::iota(pattern.begin(), pattern.end(), seed);
      runtime->write(words[which], std::as_bytes(std::span(pattern)));
    }
  }

  SimDriver machine;
  FaultDriver* faults = nullptr;
  std::unique_ptr<Runtime> runtime;
  std::uint64_t* words[2] = {};
};

TEST(DropFaults, AnySingleFailureIsReportedAndMadeGoodByASecondCall) {
  FaultyDrop faulty;
  Runtime& runtime = *faulty.runtime;
  int failures = 0, number = 0;
  for (; number < 1000 && !testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(number);
    const std::uint64_t seed = 1'000'000 * static_cast<std::uint64_t>(number + 1);
    faulty.fill(seed);
    faulty.faults->count_only({});
    faulty.faults->fail_calls({number});
    const ParkReport parked = runtime.park("model", dropping());
    std::size_t stayed = parked.stayed.size();
    // Only allocations named as staying still have bytes.
    const std::uint64_t kept = 5 * chunk_bytes - runtime.stats().dropped_bytes;
    EXPECT_EQ(kept > 0, stayed > 0);
    EXPECT_EQ(parked.bytes_dropped + kept, 5 * chunk_bytes);
    if (runtime.is_parked("model")) stayed += runtime.resume("model").stayed.size();
    const bool fired = faulty.faults->fired() > 0;
    faulty.faults->fail_calls({});
    failures += stayed > 0 ? 1 : 0;
    faulty.check(seed);
    EXPECT_EQ(runtime.stats().dropped_bytes > 0, runtime.is_parked("model"));
    if (runtime.is_parked("model")) {
      EXPECT_TRUE(runtime.resume("model").stayed.empty());
    }
    EXPECT_EQ(runtime.stats().dropped_bytes, 0u);
    faulty.check(seed);
    if (!fired) break;
    // A chunk may be elsewhere because the driver called its GPU full.
    runtime.migrate(faulty.words[0], gpu(0));
    runtime.migrate(faulty.words[1], gpu(1));
  }
  EXPECT_GT(failures, 10) << "the sweep has hit something";
  EXPECT_LT(number, 1000);
  EXPECT_EQ(runtime.stats().poisoned, 0u) << "one failure poisons nothing";
}

TEST(DropFaults, FailuresInARowLeaveEachChunkWholeDroppedOrPoisoned) {
  int poisoned = 0;
  bool fired = true;
  for (int number = 0; fired && number < 1000 && !testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(number);
    FaultyDrop faulty;  // A new one each time, since poisoned allocations stay poisoned.
    faulty.fill(7);
    Runtime& runtime = *faulty.runtime;
    std::uint64_t told = 0;
    MoveHooks hooks;
    hooks.after = [&](const MoveEvent& event) {
      told += event.moved && !event.dropped ? event.bytes : 0;
    };
    const MoveHookRegistration first = runtime.on_move(faulty.words[0], hooks);
    const MoveHookRegistration second = runtime.on_move(faulty.words[1], hooks);
    faulty.faults->count_only({});
    faulty.faults->fail_calls({number, number + 1, number + 2, number + 3});
    const std::uint64_t dropped = runtime.park("model", dropping()).bytes_dropped;
    std::uint64_t shown = 0;
    if (runtime.is_parked("model")) shown = runtime.resume("model").bytes_dropped;
    fired = faulty.faults->fired() > 0;
    faulty.faults->fail_calls({});
    const RuntimeStats stats = runtime.stats();
    EXPECT_EQ(shown, told) << "hooks hear of what can be used";
    EXPECT_EQ(shown + stats.dropped_bytes + stats.poisoned * chunk_bytes, dropped)
        << "one slot of each that is poisoned";
    if (faulty.runtime->stats().poisoned > 0) {
      ++poisoned;
      check_settled(faulty.memory());
      for (std::uint64_t* words : faulty.words) faulty.runtime->free(words);
    } else {
      faulty.check(7);
    }
    if (faulty.runtime->is_parked("model")) faulty.runtime->resume("model");
    check_settled(faulty.memory());
  }
  EXPECT_FALSE(fired) << "the sweep has come to its end";
  EXPECT_GT(poisoned, 0) << "a mapping that can be neither granted nor taken back";
}

}  // namespace
}  // namespace vma
