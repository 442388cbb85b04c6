#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// A move of a plan against which nothing is said by itself.
struct Wish {
  std::size_t number = 0;  ///< In the plan.
  ChunkId chunk{};
  PlaceId from{}, to{};
  std::uint64_t bytes = 0;
  bool victim = false;
  double value_per_byte = 0;
  double use_per_byte = 0;
};

/// The order in which wishes that compete are looked at: most value a byte, then the chunk's
/// number.
bool goes_before(const Wish& left, const Wish& right);

/// Chooses which wishes of a plan can be made together: in the end, each place holds what it can.
/// Who comes first in `goes_before` takes the free room, and what other moves leave behind; then
/// that of the place's victims, coldest first and only such as are strictly colder. A victim that
/// needs room does as a move does.
///
/// That moves leave behind their room is first assumed of all of them; when one turns out to have
/// no room itself, all is done again without it, a bounded number of times and after that with what
/// is known to leave only.
class RoomFitting {
 public:
  enum class Verdict : std::uint8_t { fits, no_room, not_colder, not_needed };

  /// By place: `room` is what is free and not spoken for, below 0 if over the capacity; `wanted`,
  /// how many bytes of moves of the plan go there, be they among the wishes or refused before.
  RoomFitting(std::span<const Wish> wishes, std::vector<std::int64_t> room,
              std::vector<std::uint64_t> wanted, double colder_factor);

  /// One verdict a wish. `left_out`: those that do not take part; their verdicts mean nothing.
  std::vector<Verdict> fit(const std::vector<bool>& left_out);

 private:
  static constexpr int passes_max = 32;
  static constexpr int depth_max = 8;  // Of victims that need victims.

  enum class State : std::uint8_t { open, trying, taken, out };

  std::size_t pass(bool optimistic);
  bool take(std::size_t wish, int depth);
  void give_back(std::size_t mark);
  bool colder(const Wish& victim, const Wish& than) const;
  void find_hottest();
  void fit_free_victims();
  std::int64_t free_victim_bytes(std::size_t at) const;
  Verdict verdict(std::size_t wish) const;

  std::span<const Wish> wishes_;
  const std::vector<std::int64_t> room_at_start_;
  const std::vector<std::uint64_t> wanted_;
  const double colder_factor_;
  std::vector<std::size_t> movers_;                // In the order of `goes_before`.
  std::vector<std::vector<std::size_t>> victims_;  // By place that they leave, coldest first.
  std::vector<std::int64_t> room_;
  std::vector<State> states_;
  std::vector<std::size_t> taken_;                    // In the order of taking.
  std::vector<double> hottest_wish_, hottest_taken_;  // That goes to a place; -1 without one.
  std::vector<bool> spared_;                          // A victim whose move is not made.
  bool optimistic_ = true;
};

}  // namespace vma
