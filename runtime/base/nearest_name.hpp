#pragma once

#include <span>
#include <string_view>

namespace vma {

/// The one of `names` that `name` was probably meant to be: the one that needs the fewest
/// insertions, deletions, replacements and swaps of adjacent letters. Empty if none is close: if
/// all differ in more than three letters, or in more than half of them. A prefix is close to its
/// name.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace vma
