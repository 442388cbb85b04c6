#pragma once

#include <span>
#include <string_view>

namespace vma {

/// The one of `names` that `name` was probably meant to be: the one with the fewest letters to
/// insert, drop, replace or swap with the next. Empty if all differ by more than a typo: by more
/// than three letters, or by more than half of them. A prefix is near to its name.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace vma
