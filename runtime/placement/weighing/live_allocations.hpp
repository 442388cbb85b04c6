#pragma once

#include "placement/weighing/allocation_contexts.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma::inline v1 {

/// What a policy was asked to place and what lives of it: each allocation from its request on,
/// which names no chunk, over the first look at its chunks, to its end. An allocation that nobody
/// asked about is none of these.
///
/// An allocation is of a request with its bytes, chunks and tag, made before it; one whose places
/// it has comes first. Of several it is the last, and equal ones are taken in their order. So of a
/// program that allocates on one thread nothing is mistaken, if the books are up to date at each
/// request. What cannot be known: which of equal requests under way on several threads came first,
/// whether one of them came to nothing, and whether memory that the program placed itself, just
/// where an equal request under way is to go, is that one's.
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
    bool found = false;                    // By a use or a tick.
    bool lives = true;

    std::uint32_t chunks() const {
      return static_cast<std::uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes);
    }
    /// To its last use: where devices fall behind, memory comes free late, and that says nothing of
    /// how long it was needed.
    Lifetime lifetime() const;
  };

  /// Looks at what came before. `places`: where its chunks are to lie.
  Number add(const Allocation& allocation, std::string_view tag, std::span<const PlaceId> places,
             const Snapshot& snapshot);
  /// Looks at what came, for `Snapshot::changed` starts anew.
  void end_tick(const Snapshot& snapshot);
  /// The one that the chunk is of; none if it is of none.
  Number find(ChunkId chunk, const Snapshot& snapshot);
  /// To be told of each chunk. The one whose first chunk this was; it is one no more.
  Number gone(ChunkId chunk);
  /// Requires: `gone` has named it. Its number may be another's.
  void forget(Number number);
  /// Of those that were asked for before `then` and whose chunks have not been seen.
  void unseen(Time then, const std::function<void(Allocation&)>& body);
  /// Those that were asked for before `then` do not come any more.
  void drop_unseen(Time then);

  Allocation& operator[](Number number) { return all_[number]; }
  std::vector<Allocation>& all() noexcept { return all_; }  // Some do not live.

 private:
  static constexpr Number nobodys = none - 1;  // In `of_chunk_`: it was looked for.
  struct Request {
    Number number = none;
    std::string tag;
    std::vector<PlaceId> places;
  };
  struct Newcomer {
    ChunkId first{};
    std::uint64_t bytes = 0;
  };

  void look(const Snapshot& snapshot);
  void take_in(ChunkId chunk, const Snapshot& snapshot, std::vector<Newcomer>& newcomers);
  void match(std::vector<Newcomer>& newcomers, const Snapshot& snapshot, bool places_agree);
  bool fits(const Request& request, const Newcomer& newcomer, const Snapshot& snapshot) const;

  std::vector<Allocation> all_;
  std::vector<Number> unused_;
  std::deque<Request> unseen_;    // In their order.
  std::vector<Number> of_chunk_;  // By first chunk; none: nobody has looked.
  std::size_t changes_seen_ = 0;  // Of `Snapshot::changed`.
  std::vector<ChunkId> vacant_;   // Of that list, maybe: they may be another's now.
};

}  // namespace vma::inline v1
