// Goal: with any number of hardware queues and attached streams, a live move ends, reports which
// way it took, and keeps the bytes right; nothing hangs next to threads inside calls that wait for
// a whole context. Method: one process per number of queues, since the driver reads it once.

#include "contract/child_process.hpp"
#include "gpu/gpu_test.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// Threads that repeat a function until they are told to stop.
class Beside {
 public:
  ~Beside() { stop(); }
  void start(std::function<void()> once) {
    threads_.emplace_back([this, work = std::move(once)] {
      try {
        while (!stop_) {
          work();
          ++rounds_;
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::uint64_t rounds() const { return rounds_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::vector<std::thread> threads_;
};

template <typename Machine>
class GpuLive : public GpuTest<Machine> {
 protected:
  void move_beside(int streams) {
    GpuRig& rig = this->rig();
    Runtime& runtime = rig.runtime();
    const int queues = parts_of(runtime).driver->device_info(DeviceId{0}).max_queues;
    Pattern pattern(rig, gpu(0), 2);
    pattern.write(7);
    std::vector<Stream> all;
    std::vector<AttachedStream> attached;
    for (int i = 0; i < streams; ++i) {
      all.push_back(runtime.make_stream(gpu(0)));
      attached.emplace_back(runtime, all.back());
    }
    // Each stream adds to its own words.
    const std::uint64_t share = pattern.size_bytes() / sizeof(std::uint64_t) / all.size();
    auto* words = reinterpret_cast<std::uint64_t*>(pattern.pointer());
    std::vector<std::uint64_t> added(all.size());
    Beside beside;
    beside.start([&] {
      for (std::size_t i = 0; i < all.size(); ++i, ++added[i - 1]) {
        const MutexLock lock(rig.submissions());
        runtime.launch(all[i], add_kernel(), {4}, {128},
                       KernelArguments::of(words + i * share, share, std::uint64_t{1}));
      }
      runtime.synchronize(all[added[0] % all.size()]);
    });
    std::map<std::string, int> reasons;
    for (const Place to : {gpu(1), gpu(0), host(0), gpu(0)}) {
      const Migration move = runtime.migrate_async(pattern.pointer(), to);
      try {
        move.wait();
      } catch (const Error& error) {
        // With more streams than queues they would never all be stopped.
        EXPECT_EQ(error.kind(), streams > queues ? ErrorKind::unsupported : ErrorKind::busy)
            << error.what();
        ++reasons[std::string(to_string(error.kind()))];
      }
      for (const auto& [reason, count] : move.report().reasons) reasons[reason] += count;
      if (move.report().chunks_live > 0) reasons["live"] += move.report().chunks_live;
    }
    beside.stop();
    for (const Stream stream : all) runtime.synchronize(stream);
    std::vector<std::uint64_t> now(share * all.size());
    runtime.read(pattern.pointer(), std::as_writable_bytes(std::span(now)));
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < now.size(); ++i) wrong += now[i] != 7 + i + added[i / share];
    EXPECT_EQ(wrong, 0u) << streams << " streams";
    attached.clear();
    for (const Stream stream : all) runtime.destroy_stream(stream);
    fmt::print("{} streams: {}\n", streams, reasons);
  }

  void move_beside_many() {
    for (const int streams : {1, 4, 16, 100}) {
      if (this->rig().simulated() && streams > 16) continue;  // Each stream needs a thread.
      move_beside(streams);
    }
  }

  void move_with_queues(const char* queues) {
    constexpr std::chrono::seconds limit(120);
    constexpr const char* variable = "CUDA_DEVICE_MAX_CONNECTIONS";
    if (inside_child()) return move_beside_many();
    if (this->rig().simulated()) GTEST_SKIP() << "a simulated machine has the queues of its file";
    setenv(variable, queues, 1);
    run_current_test_in_child(limit);
    unsetenv(variable);
  }
};
TYPED_TEST_SUITE(GpuLive, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuLive, MovesBesideAnyNumberOfStreams) {
  this->move_beside_many();
}

TYPED_TEST(GpuLive, MovesWithOneQueue) {
  this->move_with_queues("1");
}

TYPED_TEST(GpuLive, MovesWithEightQueues) {
  this->move_with_queues("8");
}

TYPED_TEST(GpuLive, MovesWithThirtyTwoQueues) {
  this->move_with_queues("32");
}

TYPED_TEST(GpuLive, NothingHangsBesideCallsThatWaitForAContext) {
  GpuRig& rig = this->rig();
  Runtime& runtime = rig.runtime();
  Driver& driver = *parts_of(runtime).driver;
  Pattern pattern(rig, gpu(0), 2);
  pattern.write(11);
  const Stream stream = runtime.make_stream(gpu(0));
  runtime.attach(stream);
  const StreamHandle handle{reinterpret_cast<std::uint64_t>(stream)};
  const ContextHandle context = driver.stream_context(handle);
  std::uint64_t added = 0;
  Beside beside;
  beside.start([&] {
    runtime.launch(
        stream, add_kernel(), {32}, {256},
        KernelArguments::of(pattern.pointer(), pattern.size_bytes() / 8, std::uint64_t{1}));
    if (++added % 4 == 0) runtime.synchronize(stream);
  });
  beside.start([&] { driver.free_plain(context, driver.allocate_plain(context, 1 << 20)); });
  beside.start([&] { driver.synchronize_context(context); });
  beside.start([&] { driver.unload_kernel(driver.load_kernel(context, sum_kernel())); });
  const int moves = this->on_gpus_or_simulated(100, 10);
  // The gate's timeout releases the settling, a free behind it, and the launch of a stop behind
  // that. Other processes on the GPUs, or on the processors of simulated ones, may delay all of it.
  // The rig's `hold_limit` is 10 s.
  const std::chrono::seconds limit(this->on_gpus_or_simulated(8, 60));
  int done = 0;
  for (int i = 0; i < moves; ++i) {
    const Migration move = runtime.migrate_async(pattern.pointer(), gpu((i + 1) % 2));
    ASSERT_TRUE(move.wait_for(limit)) << "move " << i << " stands still";
    done += move.error() == nullptr;
  }
  beside.stop();
  runtime.synchronize(stream);
  std::vector<std::uint64_t> now(pattern.size_bytes() / 8);
  runtime.read(pattern.pointer(), std::as_writable_bytes(std::span(now)));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < now.size(); ++i) wrong += now[i] != 11 + i + added;
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(done, 0);
  fmt::print("{} of {} moves beside {} rounds of others\n", done, moves, beside.rounds());
  runtime.detach(stream);
  runtime.destroy_stream(stream);
}

}  // namespace
}  // namespace vma
