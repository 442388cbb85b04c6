#include "placement/planning/planned_move.hpp"

#include "base/check.hpp"

namespace vma {

std::string_view to_string(MoveRefusal::Why why) noexcept {
  switch (why) {
    case MoveRefusal::unknown_chunk: return "unknown_chunk";
    case MoveRefusal::unknown_place: return "unknown_place";
    case MoveRefusal::same_place: return "same_place";
    case MoveRefusal::no_reason: return "no_reason";
    case MoveRefusal::bad_value: return "bad_value";
    case MoveRefusal::parked: return "parked";
    case MoveRefusal::pinned: return "pinned";
    case MoveRefusal::already_moving: return "already_moving";
    case MoveRefusal::not_in_scope: return "not_in_scope";
    case MoveRefusal::unreachable: return "unreachable";
    case MoveRefusal::cooldown: return "cooldown";
    case MoveRefusal::thrashing: return "thrashing";
    case MoveRefusal::not_colder: return "not_colder";
    case MoveRefusal::not_needed: return "not_needed";
    case MoveRefusal::no_room: return "no_room";
    case MoveRefusal::route_budget: return "route_budget";
    case MoveRefusal::stall_budget: return "stall_budget";
    case MoveRefusal::plan_too_long: return "plan_too_long";
    case MoveRefusal::held_back: return "held_back";
  }
  VMART_CHECK(false, "every reason has a name");
  return {};
}

}  // namespace vma
