#pragma once

#include "base/check.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vma {

/// The middle value; for an even number, the mean of the middle two. Requires: not empty.
template <typename Value>
Value median(std::vector<Value> values) {
  VMART_CHECK(!values.empty(), "a median is of something");
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Makes room for `count` elements in all, so that adding elements up to there does not allocate.
/// Unlike `reserve`, it grows the room geometrically. Throws: std::bad_alloc; then nothing has
/// changed.
template <typename Value>
void make_room(std::vector<Value>& values, std::size_t count) {
  if (count > values.capacity()) values.reserve(std::max(count, 2 * values.capacity()));
}

}  // namespace vma
