#include "placement/planning/planned_move.hpp"

#include "base/check.hpp"

namespace vma {

std::string_view to_string(Rejection rejection) noexcept {
  switch (rejection) {
    case Rejection::unknown_chunk: return "unknown_chunk";
    case Rejection::unknown_place: return "unknown_place";
    case Rejection::same_place: return "same_place";
    case Rejection::no_reason: return "no_reason";
    case Rejection::bad_value: return "bad_value";
    case Rejection::parked: return "parked";
    case Rejection::pinned: return "pinned";
    case Rejection::already_moving: return "already_moving";
    case Rejection::not_in_scope: return "not_in_scope";
    case Rejection::unreachable: return "unreachable";
    case Rejection::cooldown: return "cooldown";
    case Rejection::thrashing: return "thrashing";
    case Rejection::not_colder: return "not_colder";
    case Rejection::not_needed: return "not_needed";
    case Rejection::no_room: return "no_room";
    case Rejection::route_budget: return "route_budget";
    case Rejection::stall_budget: return "stall_budget";
    case Rejection::plan_too_long: return "plan_too_long";
  }
  VMART_CHECK(false, "every reason has a name");
  return {};
}

}  // namespace vma
