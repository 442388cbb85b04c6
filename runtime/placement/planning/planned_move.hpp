#pragma once

#include "placement/planning/rejection.hpp"

#include <vma/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// Of an accepted move; never used again.
enum class MoveNumber : std::uint64_t {};

/// A move to be made.
struct AcceptedMove {
  /// A wish is carried out at once or over a third place.
  enum class Leg : std::uint8_t { direct, first, second };

  MoveNumber number{};
  std::size_t wish = 0;  ///< Which move of the plan it carries out.
  ChunkId chunk{};
  PlaceId from{}, to{};
  std::uint64_t bytes = 0;
  double value = 0;
  std::string reason;
  Leg leg = Leg::direct;
  /// All of these have ended, with their chunks moved, before this one starts. If one of them
  /// fails, this one is not made. Each stands earlier in the list.
  std::vector<MoveNumber> after;
  bool keep_copy = false;  ///< As `Move::keep_copy`.
  bool victim = false;     ///< As `Move::victim`.
  bool goes_last = false;  ///< A victim whose room nobody waits for but moves of policies.
};

struct RejectedMove {
  std::size_t wish = 0;
  Move move;
  Rejection reason{};
  std::string detail;  ///< For people: the figures.
};

/// Each wish of a plan is in one of the lists, once; in the first with two legs if need be.
struct PlanOutcome {
  std::vector<AcceptedMove> accepted;
  std::vector<RejectedMove> rejected;
};

}  // namespace vma
