#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>

namespace vma {

/// What `index` of a place gives back. Requires: there are more places than `number`.
constexpr PlaceId place_numbered(std::size_t number) {
  return PlaceId{static_cast<std::uint8_t>(number)};
}

}  // namespace vma
