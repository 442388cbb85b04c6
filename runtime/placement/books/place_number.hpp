#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>

namespace vma {

/// The place whose `index` is `number`. Requires: `number` is less than the number of places.
constexpr PlaceId place_numbered(std::size_t number) {
  return PlaceId{static_cast<std::uint8_t>(number)};
}

}  // namespace vma
