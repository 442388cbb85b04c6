// Goal: no store of the CPU is lost, whatever moves beside it: each is either copied with the chunk
// or comes after the move.
#include "cpu_faults/fault_signals.hpp"
#include "support/test_kernels.hpp"
#include "unit/cpu_faults/segmentation_faults.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t chunks = 4;
constexpr std::uint64_t count = chunks * chunk_bytes / 8;

class FaultRace : public testing::Test {
 protected:
  std::uint64_t* alloc(Place at) {
    AllocOptions options;
    options.chunk_bytes = chunk_bytes;
    options.zeroed = true;
    options.cpu_access = CpuAccess::fault;
    return static_cast<std::uint64_t*>(rig.runtime().alloc(count * 8, at, options));
  }

  RuntimeRig rig{"test-2", patient()};
};

/// Threads that add 1 to words of their own, through all chunks, until they are joined.
class Adders {
 public:
  explicit Adders(std::uint64_t* words) {
    for (std::uint64_t i = 0; i < threads; ++i) {
      all_.emplace_back([this, words, i] {
        while (!end_) {
          for (std::uint64_t word = i; word < count; word += stride) {
            store(words + word, load(words + word) + 1);
          }
          ++rounds_[i];
        }
      });
    }
  }
  ~Adders() { join(); }
  void join() {
    end_ = true;
    for (std::thread& each : all_) each.join();
    all_.clear();
  }
  /// Until each has gone through the array so often.
  void await_rounds(std::uint64_t rounds) const {
    for (const auto& each : rounds_) {
      while (each < rounds) std::this_thread::yield();
    }
  }
  std::uint64_t lost(const std::uint64_t* words) const {
    std::uint64_t lost = 0;
    for (std::uint64_t i = 0; i < threads; ++i) {
      for (std::uint64_t word = i; word < count; word += stride) lost += rounds_[i] - words[word];
    }
    return lost;
  }

  static constexpr std::uint64_t threads = 4;
  static constexpr std::uint64_t stride = 64;

 private:
  std::atomic<bool> end_{false};
  std::atomic<std::uint64_t> rounds_[threads]{};
  std::vector<std::thread> all_;
};

TEST_F(FaultRace, MovesToAGpuAndBackLoseNoStore) {
  std::uint64_t* words = alloc(host(0));
  Adders adders(words);
  adders.await_rounds(1);
  for (int move = 0; move < 200; ++move) {
    rig.runtime().migrate(words, move % 2 == 0 ? gpu(move / 2 % 2) : host(0));
  }
  adders.join();
  std::vector<std::uint64_t> last(count);
  rig.runtime().read(words, std::as_writable_bytes(std::span(last)));
  EXPECT_EQ(adders.lost(last.data()), 0u);
  rig.check_invariants();
}

TEST_F(FaultRace, BackgroundMovesAtGatesLoseNoStore) {
  std::uint64_t* words = alloc(host(0));
  const AttachedStream attached(rig.runtime(), rig.stream(0));
  Adders adders(words);
  adders.await_rounds(1);
  for (int move = 0; move < 30; ++move) {
    rig.runtime()
        .migrate_async(words, move % 2 == 0 ? gpu(0) : host(0))
        .wait_for(std::chrono::seconds(60));
  }
  adders.join();
  std::vector<std::uint64_t> last(count);
  rig.runtime().read(words, std::as_writable_bytes(std::span(last)));
  EXPECT_EQ(adders.lost(last.data()), 0u);
}

TEST_F(FaultRace, CancelledAndFailedMovesLoseNoStore) {
  std::uint64_t* words = alloc(host(0));
  Adders adders(words);
  adders.await_rounds(1);
  for (int move = 0; move < 30; ++move) {
    MigrateOptions options;
    options.scope = StopScope::hold;
    const Migration migration =
        rig.runtime().migrate_async(words, move % 2 == 0 ? gpu(0) : host(0), options);
    migration.cancel();
    migration.wait_for(std::chrono::seconds(60));
  }
  adders.join();
  std::vector<std::uint64_t> last(count);
  rig.runtime().read(words, std::as_writable_bytes(std::span(last)));
  EXPECT_EQ(adders.lost(last.data()), 0u);
}

TEST_F(FaultRace, PhasesOfTheCpuAndOfKernelsAddUp) {
  std::uint64_t* words = alloc(gpu(0));
  for (std::uint64_t phase = 0; phase < 20; ++phase) {
    rig.runtime().launch(rig.stream(0), add_kernel(), {}, {},
                         KernelArguments::of(words, count, std::uint64_t{1}));
    rig.runtime().synchronize(rig.stream(0));
    if (phase % 3 == 0) rig.runtime().migrate(words, gpu(1));
    for (std::uint64_t i = 0; i < count; ++i) store(words + i, load(words + i) + 1);
    if (phase % 2 == 0) rig.runtime().migrate(words, gpu(0));
  }
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(load(words + i), 40u) << i;
}

TEST_F(FaultRace, FreesBesideFaultsEndInOneOrTheOther) {
  for (int round = 0; round < 50; ++round) {
    std::uint64_t* words = alloc(gpu(0));
    std::atomic<bool> accesses{false};
    std::thread other([&] {
      is_segmentation_fault([&] {
        accesses = true;
        for (std::uint64_t i = 0; i < count; i += 64) store(words + i, i);
      });
    });
    while (!accesses) std::this_thread::yield();
    rig.runtime().free(words);
    other.join();
  }
  rig.check_invariants();
}

TEST_F(FaultRace, AShutdownLeavesNoThreadWaiting) {
  std::uint64_t* words = alloc(host(0));
  std::vector<std::thread> all;
  std::atomic<int> ended{0};
  for (int i = 0; i < 3; ++i) {
    all.emplace_back([&, i] {
      EXPECT_TRUE(is_segmentation_fault([&] {
        while (true) store(words + i, load(words + i) + 1);
      }));
      ++ended;
    });
  }
  for (int move = 0; move < 10; ++move) {
    rig.runtime().migrate(words, move % 2 == 0 ? gpu(0) : host(0));
  }
  rig.runtime().shutdown();
  for (std::thread& each : all) each.join();
  EXPECT_EQ(ended, 3);
}

// The thread that serves may look at the queue only after it was told to end.
TEST(FaultQueue, ClosedBeforeTheLookLetsNobodyWait) {
  FaultQueue queue;
  queue.close();
  EXPECT_EQ(queue.take_all(std::chrono::hours(1)), nullptr);
}

}  // namespace
}  // namespace vma
