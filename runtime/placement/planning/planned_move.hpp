#pragma once

#include <vma/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Why a proposal of a policy is refused.
struct MoveRefusal {
  enum class Why : std::uint8_t {
    unknown_chunk,
    unknown_place,
    same_place,
    no_reason,
    bad_value,
    parked,
    pinned,
    already_moving,
    not_in_scope,
    unreachable,
    cooldown,
    thrashing,
    not_colder,
    not_needed,
    no_room,
    route_budget,
    stall_budget,
    plan_too_long,
    held_back,
  };
  using enum Why;
  static constexpr std::size_t count = 19;

  Why reason{};
  std::string detail;  ///< The numbers, for people.
};

/// Such as "no_room".
std::string_view to_string(MoveRefusal::Why why) noexcept;

/// Number of an accepted move; never used again.
enum class MoveNumber : std::uint64_t {};

/// A move to be made.
struct AcceptedMove {
  /// A proposal is carried out directly or through a third place.
  enum class Leg : std::uint8_t { direct, first, second };

  MoveNumber number{};
  std::size_t proposal = 0;  ///< The index of the plan's move that it carries out.
  ChunkId chunk{};
  PlaceId from{}, to{};
  std::uint64_t bytes = 0;
  double value = 0;
  std::string reason;
  Leg leg = Leg::direct;
  /// This move starts after all of these have moved their chunks. If one of them fails, this one is
  /// dropped. Each comes earlier in the list.
  std::vector<MoveNumber> after;
  bool keep_copy = false;  ///< As `Move::keep_copy`.
  bool victim = false;     ///< As `Move::victim`.
  bool goes_last = false;  ///< A victim whose room only moves of policies wait for.
  bool awaited = false;    ///< A thread waits for the room that it makes.
  bool ahead = false;      ///< It spends the stall budget of later.
};

/// Moves of a plan that spend the stall budget of later. In seconds.
struct StallAdvance {
  std::size_t moves = 0;
  double gain = 0, stall = 0;  ///< Predicted: what they save, and how long their stops take.
  double credit = 0;           ///< How far the budget may be overdrawn.
};

struct RefusedMove {
  std::size_t proposal = 0;
  Move move;
  MoveRefusal::Why reason{};
  std::string detail;  ///< The numbers, for people.
};

/// Each proposal of a plan is in exactly one of the lists; in the first with two legs if needed.
struct PlanOutcome {
  std::vector<AcceptedMove> accepted;
  std::vector<RefusedMove> refused;
  std::optional<StallAdvance> ahead;
};

}  // namespace vma
