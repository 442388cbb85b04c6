#pragma once

#include <vma/peer_links.hpp>

#include <optional>
#include <string_view>

namespace vma {

/// "same", "nvlink", "pcie" or "none", as files have it.
std::string_view to_string(LinkKind kind);
/// Nothing for other text.
std::optional<LinkKind> parse_link_kind(std::string_view text);

}  // namespace vma
