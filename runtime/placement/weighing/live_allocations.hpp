#pragma once

#include <vma/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vma::inline v1 {

/// The expected life of an allocation.
struct Lifetime {
  double life_s = 0;
  double passes_s = 0;  ///< Passes over its bytes per second of its life.
};

/// Repetitive programs allocate in the same order each time. So an allocation is expected to behave
/// like the last one that followed the same requests: the one that agrees in the longest sequence
/// of preceding requests counts. A request is identified by bytes, device and tag.
///
/// Memory is bounded: of two generations of contexts the older is dropped when the newer is full.
class AllocationContexts {
 public:
  static constexpr std::array<std::size_t, 6> lengths{1, 4, 16, 64, 256, 1024};

  /// The contexts of one request, the shortest first.
  struct Keys {
    std::array<std::uint64_t, lengths.size()> of_length{};
    std::size_t count = 0;
  };

  /// Adds the request to the sequence of known ones.
  Keys see(const AllocRequest& request);
  /// From the longest known context. If none of its allocations has ended, the age of the last one
  /// gives a lower bound of the lifetime.
  std::optional<Lifetime> expected(const Keys& keys, Time now) const;
  void begun(const Keys& keys, Time now);
  void ended(const Keys& keys, const Lifetime& lifetime);

 private:
  struct Context {
    Lifetime last;
    Time begun{0};  // Start of the last one.
    bool known = false;
  };
  using Contexts = std::unordered_map<std::uint64_t, Context>;

  Context& at(std::uint64_t key);
  const Context* find(std::uint64_t key) const;

  std::vector<std::uint64_t> requests_;  // A ring of the last requests.
  std::size_t next_ = 0;                 // Index in it.
  Contexts newer_, older_;
};

/// What a policy was asked to place and what is live of it: each allocation from its request, which
/// names no chunk, through the first sight of its chunks, to its end. Allocations that the policy
/// was not asked to place are not included.
///
/// An allocation belongs to an earlier request with its bytes, chunks and tag; a request with
/// matching places is preferred. Of several the last one is chosen, and equal ones in their order.
/// So for a program that allocates on one thread the match is right, if the books are up to date at
/// each request. It cannot know which of equal concurrent requests of several threads came first,
/// whether one of them failed, and whether memory that the program placed itself, just where an
/// equal pending request is to go, belongs to that request.
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
    std::uint32_t first = ChunkRow::none;  // Its first chunk, once seen.
    bool counted = true;                   // Counted as demand.
    bool found = false;                    // By a use or a tick.
    bool lives = true;

    std::uint32_t chunks() const {
      return static_cast<std::uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes);
    }
    /// Until its last use: if devices fall behind, memory is freed late, which says nothing about
    /// how long it was needed.
    Lifetime lifetime() const;
  };

  /// Takes in earlier changes first. `places`: where its chunks are to be.
  Number add(const Allocation& allocation, std::string_view tag, std::span<const PlaceId> places,
             const Snapshot& snapshot);
  /// Takes in the changes, since `Snapshot::changed` starts anew.
  void end_tick(const Snapshot& snapshot);
  /// The allocation of the chunk; none if it is not included.
  Number find(ChunkId chunk, const Snapshot& snapshot);
  /// Called for each removed chunk. Returns the allocation whose first chunk this was; it has
  /// ended.
  Number gone(ChunkId chunk);
  /// Requires: `gone` has returned it. Its number may be reused.
  void forget(Number number);
  /// Calls `body` for those requested before `then` whose chunks have not been seen.
  void unseen(Time then, const std::function<void(Allocation&)>& body);
  /// Drops those requested before `then` whose chunks have not been seen.
  void drop_unseen(Time then);

  Allocation& operator[](Number number) { return all_[number]; }
  std::vector<Allocation>& all() noexcept { return all_; }  // Some are not live.
  const std::vector<Allocation>& all() const noexcept { return all_; }

 private:
  static constexpr Number nobodys = none - 1;  // In `of_chunk_`: searched for, none found.
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
  std::vector<Number> of_chunk_;  // By first chunk; none: not searched for.
  std::size_t changes_seen_ = 0;  // Of `Snapshot::changed`.
  std::vector<ChunkId> vacant_;   // Of that list, perhaps: they may be reused.
};

}  // namespace vma::inline v1
