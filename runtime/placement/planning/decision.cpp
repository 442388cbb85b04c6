#include "placement/planning/decision.hpp"

#include <algorithm>
#include <array>

namespace vma {
namespace {

constexpr std::array<std::string_view, decision_kinds> names{
    "planned",       "refused",         "started",  "moved",   "not_moved",
    "policy_failed", "policy_replaced", "paused",   "resumed", "drained",
    "refilled",      "parked",          "unparked", "ahead",   "ahead_judged"};
static_assert(names.back() == "ahead_judged", "one name for each kind");

}  // namespace

std::string_view to_string(DecisionKind kind) noexcept {
  const auto at = static_cast<std::size_t>(kind);
  return at < names.size() ? names[at] : "unknown";
}

std::optional<DecisionKind> parse_decision_kind(std::string_view name) noexcept {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<DecisionKind>(found - names.begin());
}

void clip(std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
}

void clip(Decision& decision) {
  clip(decision.policy, decision_name_bytes_max);
  clip(decision.wish, decision_text_bytes_max);
  clip(decision.reason, decision_text_bytes_max);
  if (decision.chunk) clip(decision.chunk->tag, decision_name_bytes_max);
}

}  // namespace vma
