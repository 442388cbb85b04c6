#pragma once

#include "placement/auto/use_rhythm.hpp"
#include "placement/weighing/live_allocations.hpp"

#include <vma/policy.hpp>
#include <vma/snapshot.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma::inline v1 {

/// When live allocations are expected to end, by the GPU that requested them. Those that end within
/// a time are found without a look at the others: a policy asks at each request. Memory near the
/// end of its life comes and goes most often, so it is where a sorted array changes cheaply.
class ExpectedEnds {
 public:
  struct End {
    Time at{0}, took{0};     ///< `took`: the life of the one that this is expected to be like.
    double bytes = 0;        ///< That become free near the GPU.
    std::uint64_t like = 0;  ///< The number of that request.
  };

  /// Replaces what was expected of the allocation.
  void put(LiveAllocations::Number allocation, PlaceId device, const End& end);
  /// If anything is expected of it.
  void drop(LiveAllocations::Number allocation);
  /// Calls `body` for those of a GPU that end before `until`, the next one first.
  template <typename Body>  // body(const End&)
  void for_each(PlaceId device, Time until, Body&& body) const {
    if (index(device) >= by_time_.size()) return;
    for (const Listed& listed : by_time_[index(device)] | std::views::reverse) {
      if (listed.end.at >= until) return;
      body(listed.end);
    }
  }

 private:
  struct Listed {
    End end;
    LiveAllocations::Number allocation = LiveAllocations::none;
  };
  /// Where the end of an allocation is listed.
  struct Place {
    PlaceId device{};
    Time at{0};
    bool listed = false;
  };
  std::vector<Listed>::iterator find(PlaceId device, Time at, LiveAllocations::Number allocation);

  std::vector<std::vector<Listed>> by_time_;  // By GPU; the furthest first.
  std::vector<Place> places_;                 // By allocation.
};

/// Which earlier request of the same device each request repeats.
///
/// Followers walk along earlier parts of the sequence as long as it repeats them: one begins where
/// the last three requests occurred before, and ends when it errs too often. The one that agreed
/// for longest decides. So after the first iteration of a program the whole previous iteration is
/// found again, although its layers look alike. A few requests may be missing or come in addition.
///
/// Bounded: `kept` requests, `followers_max` followers; each request costs a bounded time.
class RequestOrder {
 public:
  using Number = std::uint64_t;  ///< Of a request, in their order.
  static constexpr std::size_t kept = std::size_t{1} << 14;

  /// Takes in the next request: equal signatures are alike. Returns the number of the one that it
  /// repeats; none if it is not known.
  std::optional<Number> add(std::uint64_t signature);
  /// How many requests there were.
  Number count() const noexcept { return count_; }
  /// Whether the request is one of the last `kept`.
  bool has(Number number) const noexcept { return number < count_ && number + kept > count_; }

 private:
  static constexpr std::size_t followers_max = 8;
  static constexpr std::size_t skipped_max = 8;  // Missing requests at once.
  static constexpr std::size_t errors_max = 8;   // Requests in a row that came in addition.
  static constexpr std::size_t begins_with = 3;

  struct Follower {
    Number at = 0;
    std::size_t run = 0;     // For how many requests it agreed, halved with each error.
    std::size_t errors = 0;  // In a row.
  };

  std::uint64_t signature(Number number) const { return signatures_[number % kept]; }
  bool step(Follower& follower, std::uint64_t signature) const;
  void begin_follower();

  std::vector<std::uint64_t> signatures_;  // A ring.
  Number count_ = 0;
  std::vector<Follower> followers_;
  std::unordered_map<std::uint64_t, Number> last_;  // Of each sequence of `begins_with` requests.
};

/// What becomes of allocations that a program makes anew in each iteration: each is expected to be
/// used, and to end, like the one that it repeats (`RequestOrder`), counted from its request.
///
/// Bounded: it remembers `RequestOrder::kept` allocations of each GPU, and of each the first
/// `uses_max` uses.
class RepeatedLives {
 public:
  static constexpr std::size_t uses_max = 6;

  /// Uses less than `apart` after each other are one.
  explicit RepeatedLives(Time apart) : apart_(apart) {}

  /// The policy is asked to place the request. Call `placed` next.
  void asked(const AllocRequest& request, const Snapshot& snapshot);
  /// How many bytes of the request belong in the memory near its GPU: there they leave room for all
  /// that will be requested during its life and is used more densely (passes over its bytes per
  /// second of its life), as far as what lives now does not end before. None if it repeats nothing
  /// that has ended. Requires: `asked` was called for it.
  std::optional<std::uint64_t> room_near(const Snapshot& snapshot) const;
  /// How many of the free bytes near a GPU will be requested before `until`.
  std::uint64_t needed_near(PlaceId device, Time until, const Snapshot& snapshot) const;
  void placed(const AllocRequest& request, std::span<const PlaceId> places,
              const Snapshot& snapshot);
  /// Where the memory that is near a GPU ends in its order of places: the first host.
  static std::size_t near_places(PlaceId device, const MachineCosts& costs);

  /// Whether what the chunk belongs to repeats something, and so has no rhythm of its own. The
  /// equal layers of a model repeat each other, but live on: only what has ended tells of a life,
  /// and only for twice as long as it took.
  bool repeats(ChunkId chunk, const Snapshot& snapshot);
  /// Returns whether a new use has begun.
  bool used(const UseEvent& use, const Snapshot& snapshot);
  std::optional<NextUse> next(ChunkId chunk, const Snapshot& snapshot);
  void gone(ChunkId chunk, Time now);
  void end_tick(const Snapshot& snapshot);
  /// Whether lives end as expected.
  bool trusted() const noexcept { return record_.trusted(); }

 private:
  using Number = RequestOrder::Number;

  struct Use {
    Time begin{0}, last{0};  // Since the request.
    PlaceId device{};
    double passes = 0;
  };
  struct Life {
    Number number = 0;
    LiveAllocations::Number allocation = LiveAllocations::none;  // While it lives.
    std::uint64_t bytes = 0;
    std::uint64_t near_bytes = 0;  // Placed near its GPU.
    Time born{0}, took{0};
    bool ended = false;
    bool has_like = false;
    Number like = 0;  // The request that it repeats.
    // The last request that repeats this one; and the one before this that repeats the same one.
    std::optional<Number> last_repeat, repeat_before;
    double passes = 0;
    std::array<Use, uses_max> uses;
    std::size_t used = 0;  // How many of them.

    double density() const;
  };
  /// The requests of one GPU.
  struct Requests {
    RequestOrder order;
    std::vector<Life> lives;  // A ring, by number.
    Time last{0};             // The last request.
  };
  struct Name {
    PlaceId device{};
    Number number = 0;
  };

  Life* find(const Name& name);
  const Life* ended_like(const Requests& requests, const Life& life) const;
  static const Life& life_of(const Requests& requests, Number number) {
    return requests.lives[number % RequestOrder::kept];
  }
  std::optional<Name> name_of(ChunkId chunk, const Snapshot& snapshot);
  void expect_end(const Requests& requests, const Life& life);
  void expect_ends_like(const Requests& requests, const Life& ended, int iterations);
  void end(const Name& name, Time took);
  void forget(LiveAllocations::Number number);
  bool shares_memory(PlaceId device, PlaceId other, const MachineCosts& costs) const;

  class Forecast;
  void count_ends(PlaceId device, const Snapshot& snapshot, Forecast& forecast) const;
  /// Those that are used more densely than `density`.
  void count_requests(PlaceId device, double density, const Snapshot& snapshot,
                      Forecast& forecast) const;

  const Time apart_;
  TrackRecord record_;
  std::vector<Requests> requests_;  // By GPU.
  PlaceId asked_by_{};
  LiveAllocations allocations_;
  std::vector<Name> names_;  // By number of the live allocation.
  ExpectedEnds ends_;        // Of live allocations.
  Time last_tick_{0};
};

}  // namespace vma::inline v1
