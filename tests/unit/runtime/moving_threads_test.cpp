// Goal: threads can move, read, allocate and free at the same time while kernels run, and two may
// shut down.

#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

namespace vma {
namespace {

constexpr std::uint64_t words_of_each = 4'096;
constexpr int threads = 4;
constexpr int rounds = 40;

void in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&body, thread] {
      try {
        body(thread);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << thread << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

TEST(MovingThreads, MoveTheirOwnWithKernelsUnderWay) {
  RuntimeRig rig;
  in_threads([&](int thread) {
    std::mt19937_64 random(static_cast<unsigned>(thread));
    const std::vector<Place> places = rig.runtime().places();
    const Stream stream = rig.runtime().make_stream(gpu(thread % 2));
    std::uint64_t* words = rig.alloc(words_of_each * 8, gpu(0));
    std::uint64_t seed = static_cast<std::uint64_t>(thread) * 1'000'000;
    rig.write(words, words_of_each, seed);
    for (int round = 0; round < rounds; ++round) {
      rig.runtime().launch(stream, add_kernel(), {}, {},
                           KernelArguments::of(words, words_of_each, std::uint64_t{1}));
      ++seed;
      rig.runtime().migrate(words, places[random() % places.size()]);
      if (round % 8 != 0) continue;
      // The move does not wait for the kernel if the memory is already there.
      rig.runtime().synchronize(stream);
      ASSERT_EQ(rig.wrong(words, words_of_each, seed), 0u);
    }
    rig.runtime().synchronize(stream);
    EXPECT_EQ(rig.wrong(words, words_of_each, seed), 0u);
    rig.runtime().free(words);
  });
  rig.check_invariants();
}

TEST(MovingThreads, MoveOneThatTheyShare) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(words_of_each * 8, gpu(0));
  rig.write(words, words_of_each, 5);
  in_threads([&](int thread) {
    std::mt19937_64 random(static_cast<unsigned>(thread));
    const std::vector<Place> places = rig.runtime().places();
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t offset = random() % (words_of_each * 8);
      rig.runtime().migrate(words, offset, 1 + random() % (words_of_each * 8 - offset),
                            places[random() % places.size()]);
      ASSERT_EQ(rig.wrong(words, words_of_each, 5), 0u);
    }
  });
  for (int g = 0; g < rig.gpus(); ++g) EXPECT_EQ(rig.wrong_for(g, words, words_of_each, 5), 0u);
  rig.check_invariants();
}

TEST(MovingThreads, AllocateFreeAndTrimBesideMoves) {
  RuntimeRig rig;
  std::uint64_t* shared = rig.alloc(words_of_each * 8, gpu(0));
  rig.write(shared, words_of_each, 1);
  in_threads([&](int thread) {
    std::mt19937_64 random(static_cast<unsigned>(thread) + 10);
    const std::vector<Place> places = rig.runtime().places();
    for (int round = 0; round < 2 * rounds; ++round) {
      const Place at = places[random() % places.size()];
      if (thread == 0) {
        rig.runtime().migrate(shared, at);
        continue;
      }
      std::uint64_t* words = rig.alloc(8 + random() % 60'000, at, 4096 << (random() % 3));
      rig.write(words, 1, static_cast<std::uint64_t>(round));
      if (random() % 4 == 0) rig.runtime().trim(at);
      if (random() % 4 == 0) rig.runtime().reserve(at, 8192, 4096);
      static_cast<void>(rig.runtime().stats());
      EXPECT_EQ(rig.wrong(words, 1, static_cast<std::uint64_t>(round)), 0u);
      EXPECT_EQ(rig.wrong(shared, words_of_each, 1), 0u);
      if (random() % 2 == 0) {
        rig.runtime().free(words);
      } else {
        rig.runtime().free_async(words, rig.stream(thread % 2));
      }
    }
  });
  rig.check_invariants();
}

TEST(MovingThreads, TwoShutDownBesideMoves) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(words_of_each * 8, gpu(0));
  std::atomic<int> begun{0};
  in_threads([&](int thread) {
    ++begun;
    Poll poll;
    while (begun < threads) poll.pause();
    if (thread < 2) {
      rig.runtime().shutdown();
      EXPECT_TRUE(rig.machine().leaks().empty()) << rig.machine().leaks().front();
      return;
    }
    try {
      for (int round = 0; round < 1'000; ++round) rig.runtime().migrate(words, gpu(round % 2));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::driver_gone) << error.what();
    }
  });
}

}  // namespace
}  // namespace vma
