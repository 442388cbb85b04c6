#pragma once

#include "placement/allocation_contexts.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace vma::inline v1 {

/// What a policy was asked to place and what lives of it: each allocation from its request on,
/// which names no chunk, over the first sight of its chunks, by a use or a tick, to its end. An
/// allocation that nobody asked about is none of these.
class LiveAllocations {
 public:
  using Number = std::uint32_t;
  static constexpr Number none = UINT32_MAX;

  struct Allocation {
    std::uint64_t bytes = 0, chunk_bytes = 0;
    AllocationContexts::Keys keys;
    std::size_t of_class = 0;
    Time born{0}, last_use{0};
    double used_bytes = 0;
    std::uint32_t first = ChunkRow::none;  // Its first chunk, once it is seen.
    bool counted = true;                   // As demand.
    bool lives = true;

    std::uint32_t chunks() const {
      return static_cast<std::uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes);
    }
    /// To its last use: where devices fall behind, memory comes free late, and that says nothing of
    /// how long it was needed.
    Lifetime lifetime() const;
  };

  Number add(const Allocation& allocation);
  /// The one that the chunk is of; none if it is of none.
  Number find(ChunkId chunk, const Snapshot& snapshot);
  /// The one whose first chunk this was; it is one no more.
  Number gone(ChunkId chunk);
  /// Requires: `gone` has named it, or `unseen`. Its number may be another's.
  void forget(Number number);
  /// Of those that were asked for before `then` and whose chunks have not been seen.
  void unseen(Time then, const std::function<void(Allocation&)>& body);
  /// Those that were asked for before `then` do not come any more.
  void drop_unseen(Time then);

  Allocation& operator[](Number number) { return all_[number]; }
  std::vector<Allocation>& all() noexcept { return all_; }  // Some do not live.

 private:
  std::vector<Allocation> all_;
  std::vector<Number> unused_;
  std::deque<Number> unseen_;     // In the order of their requests.
  std::vector<Number> of_chunk_;  // By first chunk.
};

}  // namespace vma::inline v1
