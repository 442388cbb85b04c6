// Goal: memory in HBM is mapped for copies when it first moves, before anything is stopped, and not
// before; parking it without its contents costs one unmap and one release a chunk, and resuming it
// one creation and one mapping. Method: counts the calls of the driver, and fails some.
#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/drivers/fault_driver.hpp"
#include "support/drivers/trace_driver.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace vma {
namespace {

using Counts = std::map<Call, int>;

constexpr int chunk_count = 6;
constexpr std::uint64_t all_bytes = chunk_count * chunk_bytes;

/// Those of memory and of its contents, without the creation of addresses and events.
constexpr Call counted_calls[] = {Call::create,    Call::release, Call::reserve,
                                  Call::unreserve, Call::map,     Call::unmap,
                                  Call::grant,     Call::fill,    Call::copy};

class StagingTest : public testing::Test {
 protected:
  StagingTest() {
    auto trace = std::make_unique<TraceDriver>(machine_, 100'000);
    trace_ = trace.get();
    auto faults = std::make_unique<FaultDriver>(std::move(trace));
    faults_ = faults.get();
    RuntimeOptions options;
    options.pressure_limit = std::chrono::milliseconds(0);
    options.cache_bytes_per_gpu = 0;  // Each chunk is created and released.
    runtime_ = unique_runtime_of(
        std::make_unique<RuntimeParts>(std::move(faults), resolve_settings(options)));
    AllocOptions asked;
    asked.chunk_bytes = chunk_bytes;
    asked.tag = "model";
    words_ = static_cast<std::uint64_t*>(runtime_->alloc(all_bytes, gpu(0), asked));
    std::vector<std::uint64_t> pattern(all_bytes / 8);
    std::iota(pattern.begin(), pattern.end(), seed);
    runtime_->write(words_, std::as_bytes(std::span(pattern)));
    settle();
  }

  Memory& memory() { return parts_of(*runtime_).machinery->memory; }
  void settle() {
    memory().chunks().slow_calls().await_empty();
    memory().check_invariants();
    trace_->clear();
  }
  /// The calls of `body`; what it does behind that, too.
  template <typename Body>
  Counts counts_of(Body&& body) {
    settle();
    body();
    memory().chunks().slow_calls().await_empty();
    Counts counts;
    for (const TracedCall& call : trace_->calls()) {
      if (std::ranges::find(counted_calls, call.call) != std::end(counted_calls)) {
        ++counts[call.call];
      }
    }
    return counts;
  }
  ParkReport park() {
    ParkOptions options;
    options.contents = ParkContents::drop;
    options.how.nothing_runs = true;  // A stop grants keepers now and then.
    return runtime_->park("model", options);
  }
  ParkReport resume(bool zeroed) {
    ParkOptions options;
    options.zeroed = zeroed;
    return runtime_->resume("model", options);
  }
  std::uint64_t wrong(std::uint64_t first, std::uint64_t step) {
    std::vector<std::uint64_t> now(all_bytes / 8, 1);
    runtime_->read(words_, std::as_writable_bytes(std::span(now)));
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < now.size(); ++i) wrong += now[i] != first + step * i;
    return wrong;
  }

  static constexpr std::uint64_t seed = 77;
  SimDriver machine_{load_machine("test-2")};
  TraceDriver* trace_ = nullptr;
  FaultDriver* faults_ = nullptr;
  std::unique_ptr<Runtime> runtime_;
  std::uint64_t* words_ = nullptr;
};

TEST_F(StagingTest, MemoryThatIsPausedAndDidNotMoveHasOneMapping) {
  EXPECT_EQ(counts_of([&] { park(); }),
            (Counts{{Call::unmap, chunk_count}, {Call::release, chunk_count}}));
  EXPECT_EQ(counts_of([&] { resume(true); }), (Counts{{Call::create, chunk_count},
                                                      {Call::map, chunk_count},
                                                      {Call::grant, 2},
                                                      {Call::fill, 1}}))
      << "its GPU first, the other one beside the fill";
  EXPECT_EQ(wrong(0, 0), 0u);
}

TEST_F(StagingTest, WhoNeedsNoZerosWaitsForNone) {
  park();
  EXPECT_EQ(counts_of([&] { resume(false); }),
            (Counts{{Call::create, chunk_count}, {Call::map, chunk_count}, {Call::grant, 1}}));
  EXPECT_GT(wrong(0, 0), 0u) << "the machine fills new memory with junk";
}

TEST_F(StagingTest, OtherGpusGetAccessWhileTheFillRuns) {
  park();
  settle();
  resume(true);
  std::vector<Call> order;
  for (const TracedCall& call : trace_->calls()) {
    if (call.call == Call::grant || call.call == Call::fill || call.call == Call::wait_stream) {
      order.push_back(call.call);
    }
  }
  EXPECT_EQ(order, (std::vector<Call>{Call::grant, Call::fill, Call::grant, Call::wait_stream}));
}

TEST_F(StagingTest, TheFirstMoveMapsWhatItCopiesAndTheNextDoesNot) {
  const Counts first = counts_of([&] { runtime_->migrate(words_, gpu(1)); });
  EXPECT_EQ(first.at(Call::reserve), 2 * chunk_count) << "for the sources and for the targets";
  EXPECT_EQ(first.at(Call::map), 3 * chunk_count);
  EXPECT_EQ(wrong(seed, 1), 0u);
  const Counts second = counts_of([&] { runtime_->migrate(words_, gpu(0)); });
  EXPECT_EQ(second.at(Call::reserve), chunk_count) << "the new targets";
  EXPECT_EQ(second.at(Call::map), 2 * chunk_count);
  EXPECT_EQ(wrong(seed, 1), 0u);
}

TEST_F(StagingTest, NothingIsMappedForACopyOnceTheWorkIsStopped) {
  for (const bool waits : {true, false}) {
    SCOPED_TRACE(waits ? "migrate" : "migrate_async");
    settle();
    MigrateOptions options;
    options.reserve_first = true;
    const Place to = waits ? gpu(1) : host(0);
    if (waits) {
      runtime_->migrate(words_, to, options);
    } else {
      runtime_->migrate_async(words_, to, options).wait();
    }
    const std::vector<TracedCall> calls = trace_->calls();
    const auto is_first = [](const TracedCall& call) { return call.call == Call::unmap; };
    const auto stopped = std::ranges::find_if(calls, is_first);
    ASSERT_NE(stopped, calls.end());
    // Beside the thread that moves, another one makes what later moves need.
    const auto late = std::find_if(stopped, calls.end(), [&](const TracedCall& call) {
      return call.call == Call::reserve && call.thread == stopped->thread;
    });
    EXPECT_EQ(late, calls.end()) << "a slot was dark before";
    EXPECT_EQ(wrong(seed, 1), 0u);
  }
}

TEST_F(StagingTest, AFirstMoveThatCannotMapItsSourceLeavesTheBytes) {
  for (const Call call : {Call::reserve, Call::map, Call::grant}) {
    SCOPED_TRACE(to_string(call));
    faults_->count_only({call});
    faults_->fail_calls({0, 1});  // Also when what is kept for page tables was given up.
    const Error error =
        expect_error(ErrorKind::out_of_memory, [&] { runtime_->migrate(words_, gpu(1)); });
    EXPECT_EQ(error.call(), to_string(call));
    faults_->fail_calls({});
    EXPECT_EQ(runtime_->where(words_).front().at, gpu(0));
    EXPECT_EQ(wrong(seed, 1), 0u);
    settle();
  }
  runtime_->migrate(words_, gpu(1));
  EXPECT_EQ(runtime_->where(words_).front().at, gpu(1));
  EXPECT_EQ(wrong(seed, 1), 0u);
}

TEST_F(StagingTest, OneRefusalForWantOfMemoryIsMadeGoodByWhatIsKeptForIt) {
  faults_->count_only({Call::grant});
  faults_->fail_calls({0});
  runtime_->migrate(words_, gpu(1));
  EXPECT_EQ(faults_->fired(), 1);
  faults_->fail_calls({});
  EXPECT_EQ(wrong(seed, 1), 0u);
  EXPECT_EQ(memory().chunks().ledger().account(gpu(0)).own_bytes, 4096u) << "the spares went";
}

}  // namespace
}  // namespace vma
