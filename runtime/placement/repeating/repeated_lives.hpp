#pragma once

#include "placement/repeating/expected_ends.hpp"
#include "placement/repeating/predictions.hpp"
#include "placement/repeating/request_order.hpp"
#include "placement/weighing/live_allocations.hpp"

#include <vma/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace vma::inline v1 {

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

  /// Whether what the chunk belongs to repeats something, and so has no rhythm of its own.
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
