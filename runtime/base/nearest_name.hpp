#pragma once

#include <span>
#include <string_view>

namespace vma {

/// The one of `names` that `name` was probably meant to be: the one with the fewest letters to
/// insert, drop, replace or swap with the next. Empty if all differ in more than a slip does: in
/// more than three letters, or in more than half of them. The beginning of a name is near to it.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace vma
