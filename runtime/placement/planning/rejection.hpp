#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vma {

/// Why a wish of a policy is refused.
enum class Rejection : std::uint8_t {
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
};

inline constexpr std::size_t rejections = 18;

/// Such as "no_room".
std::string_view to_string(Rejection rejection) noexcept;

struct Refusal {
  Rejection reason{};
  std::string detail;  ///< The numbers, for people.
};

}  // namespace vma
