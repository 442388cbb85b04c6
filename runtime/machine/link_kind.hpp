#pragma once

#include <vma/location.hpp>

#include <optional>
#include <string_view>

namespace vma {

/// As written in files: "same", "nvlink", "pcie" or "none".
std::string_view to_string(LinkKind kind);
/// Returns nothing for any other text.
std::optional<LinkKind> parse_link_kind(std::string_view text);

}  // namespace vma
