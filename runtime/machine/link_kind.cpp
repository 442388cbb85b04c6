#include "machine/link_kind.hpp"

namespace vma {

std::string_view to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::same: return "same";
    case LinkKind::nvlink: return "nvlink";
    case LinkKind::pcie: return "pcie";
    case LinkKind::none: return "none";
  }
  return "";
}

std::optional<LinkKind> parse_link_kind(std::string_view text) {
  for (const LinkKind kind : {LinkKind::same, LinkKind::nvlink, LinkKind::pcie, LinkKind::none}) {
    if (to_string(kind) == text) return kind;
  }
  return std::nullopt;
}

}  // namespace vma
