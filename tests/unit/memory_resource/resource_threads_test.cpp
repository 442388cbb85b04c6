// Goal: a resource is used by many threads at once, and a block may be freed by another thread than
// allocated it. Method: each way to hold a resource and to order its calls; threads that write and
// read their blocks.
#include "unit/memory_resource/resource_rig.hpp"

#include "support/test_run.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t thread_count = 4;

class ResourceThreads : public ResourceTest {
 protected:
  struct Block {
    std::uint64_t* words = nullptr;
    std::size_t count = 0;
    std::uint64_t seed = 0;
  };

  static void on_threads(const std::function<void(std::uint64_t)>& body) {
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < thread_count; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }

  Block make(std::size_t count, std::uint64_t seed) {
    const Block block{static_cast<std::uint64_t*>(allocate(count * word_bytes)), count, seed};
    rig_.write(block.words, count, seed);
    return block;
  }
  void check_and_free(const Block& block) {
    EXPECT_EQ(rig_.wrong(block.words, block.count, block.seed), 0u);
    deallocate(block.words, block.count * word_bytes);
  }
};

TEST_P(ResourceThreads, AllocateAndFreeTheirOwn) {
  on_threads([&](std::uint64_t thread) {
    for (std::uint64_t i = 0; i < 20; ++i) check_and_free(make(1000, thread << 40 | i << 20));
  });
  EXPECT_EQ(resource_.pool().stats().used_bytes, 0u);
}

TEST_P(ResourceThreads, KeepRandomBlocksApart) {
  on_threads([&](std::uint64_t thread) {
    std::mt19937_64 random(run_seed() + thread);
    std::vector<Block> blocks;
    for (std::uint64_t i = 0; i < 60; ++i) {
      if (blocks.empty() || random() % 100 < 55) {
        blocks.push_back(make(1 + random() % 8000, thread << 40 | i << 20));
        continue;
      }
      std::swap(blocks[random() % blocks.size()], blocks.back());
      check_and_free(blocks.back());
      blocks.pop_back();
    }
    for (const Block& block : blocks) check_and_free(block);
  });
  EXPECT_EQ(resource_.pool().stats().used_bytes, 0u);
}

TEST_P(ResourceThreads, FreeWhatOthersAllocated) {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<Block> handed_over;
  constexpr std::uint64_t blocks = 40;
  on_threads([&](std::uint64_t thread) {
    for (std::uint64_t i = 0; i < blocks; ++i) {
      if (thread % 2 == 0) {
        const Block block = make(500 + i, thread << 40 | i << 20);
        const std::lock_guard lock(mutex);
        handed_over.push_back(block);
        arrived.notify_one();
        continue;
      }
      std::unique_lock lock(mutex);
      arrived.wait(lock, [&] { return !handed_over.empty(); });
      const Block block = handed_over.front();
      handed_over.pop_front();
      lock.unlock();
      check_and_free(block);
    }
  });
  EXPECT_EQ(resource_.pool().stats().used_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Held, ResourceThreads, VMART_ALL_WAYS);

}  // namespace
}  // namespace vma
