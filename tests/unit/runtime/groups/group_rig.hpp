#pragma once

#include "unit/runtime/runtime_rig.hpp"

#include <vma/group.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace vma {

/// A runtime, and allocations of two chunks that a test moves together; word i of number n is n
/// million plus i.
class GroupRig : public testing::Test {
 protected:
  static constexpr std::uint64_t count = 2 * chunk_bytes / sizeof(std::uint64_t);  // In words.
  static constexpr std::uint64_t size_bytes = 2 * chunk_bytes;

  explicit GroupRig(RuntimeOptions options = {}) : rig_("test-2", std::move(options)) {}
  ~GroupRig() override { rig_.check_invariants(); }

  std::uint64_t* add(Place at) {
    std::uint64_t* words = rig_.alloc(size_bytes, at);
    rig_.write(words, count, all_.size() * 1'000'000);
    all_.push_back(words);
    return words;
  }
  void expect_whole() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      EXPECT_EQ(rig_.wrong(all_[i], count, i * 1'000'000), 0u) << i;
      EXPECT_EQ(rig_.wrong_for(1, all_[i], count, i * 1'000'000), 0u) << i;
    }
  }
  /// Calls `body` again and again in several threads, with requests for some of the allocations, in
  /// any order, each to any place; the last one is for an allocation that only `body` frees. It may
  /// throw what a move ends in whose memory is freed meanwhile.
  void in_threads(const std::function<void(int round, std::vector<MoveRequest>& requests)>& body) {
    constexpr int threads_count = 4, rounds = 25;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < threads_count; ++thread) {
      threads.emplace_back([&, random = std::mt19937_64(static_cast<unsigned>(thread))]() mutable {
        for (int round = 0; round < rounds; ++round) {
          std::vector<MoveRequest> requests = draw_requests(random);
          requests.push_back({rig_.alloc(size_bytes, gpu(0)), gpu(1)});
          try {
            body(round, requests);
          } catch (const Error& error) {
            const bool expected = error.kind() == ErrorKind::cancelled ||
                                  error.kind() == ErrorKind::unknown_pointer ||
                                  error.kind() == ErrorKind::busy;
            EXPECT_TRUE(expected) << error.what();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Runtime& runtime() { return rig_.runtime(); }

  RuntimeRig rig_;
  std::vector<std::uint64_t*> all_;

 private:
  std::vector<MoveRequest> draw_requests(std::mt19937_64& random) {
    const std::vector<Place> places = runtime().places();
    std::vector<MoveRequest> requests;
    for (std::uint64_t* words : all_) {
      if (random() % 3 != 0) requests.push_back({words, places[random() % places.size()]});
    }
    std::ranges::shuffle(requests, random);
    return requests;
  }
};

}  // namespace vma
