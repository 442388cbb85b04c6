#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// A move of a plan that passed the checks by itself.
struct Proposal {
  std::size_t number = 0;  ///< In the plan.
  ChunkId chunk{};
  PlaceId from{}, to{};
  std::uint64_t bytes = 0;
  bool victim = false;
  double value_per_byte = 0;
  double use_per_byte = 0;
};

/// The order in which competing proposals are considered: highest value per byte, then the chunk's
/// number.
bool goes_before(const Proposal& left, const Proposal& right);

/// Chooses which proposals of a plan can be made together, so that in the end no place exceeds its
/// capacity. In the order of `goes_before`, each takes the free room and what other moves leave
/// behind; then that of the place's victims, coldest first and only strictly colder ones. A victim
/// that needs room is treated like a move.
///
/// At first all moves are assumed to leave their room; if one turns out to have no room itself,
/// everything is redone without it, a bounded number of times and after that only with moves known
/// to leave.
/// One owner: one fitting; each time that it is redone, the last fields begin anew.
class RoomFitting {
 public:
  enum class Verdict : std::uint8_t { fits, no_room, not_colder, not_needed };

  /// By place: `room` is what is free and not reserved, negative if over the capacity; `wanted`,
  /// how many bytes moves of the plan bring there, whether among the proposals or refused before.
  RoomFitting(std::span<const Proposal> proposals, std::vector<std::int64_t> room,
              std::vector<std::uint64_t> wanted, double colder_factor);

  /// One verdict a proposal. `left_out`: proposals that do not take part; their verdicts mean
  /// nothing.
  std::vector<Verdict> fit(const std::vector<bool>& left_out);

 private:
  static constexpr int passes_max = 32;
  static constexpr int depth_max = 8;  // For victims that need victims.

  enum class State : std::uint8_t { open, trying, taken, out };

  std::size_t pass(bool optimistic);
  bool take(std::size_t proposal, int depth);
  void give_back(std::size_t mark);
  bool colder(const Proposal& victim, const Proposal& than) const;
  void find_hottest();
  void fit_free_victims();
  std::int64_t free_victim_bytes(std::size_t at) const;
  Verdict verdict(std::size_t proposal) const;

  std::span<const Proposal> proposals_;
  const std::vector<std::int64_t> room_at_start_;
  const std::vector<std::uint64_t> wanted_;
  const double colder_factor_;
  std::vector<std::size_t> movers_;                // In the order of `goes_before`.
  std::vector<std::vector<std::size_t>> victims_;  // By place that they leave, coldest first.
  std::vector<std::int64_t> room_;
  std::vector<State> states_;
  std::vector<std::size_t> taken_;  // In the order of taking.
  // Use of the hottest that goes to a place; -1 without one.
  std::vector<double> hottest_proposal_, hottest_taken_;
  std::vector<bool> spared_;  // A victim whose move is not made.
  bool optimistic_ = true;
};

}  // namespace vma
