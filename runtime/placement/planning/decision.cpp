#include "placement/planning/decision.hpp"

#include <algorithm>
#include <array>

namespace vma {
namespace {

constexpr std::array<std::string_view, decision_kinds> names{
    "planned",         "refused", "started",      "moved",      "not_moved", "policy_failed",
    "policy_replaced", "paused",  "resumed",      "drained",    "refilled",  "parked",
    "unparked",        "ahead",   "ahead_judged", "pace_judged"};
static_assert(names.back() == "pace_judged", "one name for each kind");

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
  clip(decision.why, decision_text_bytes_max);
  clip(decision.reason, decision_text_bytes_max);
  if (decision.chunk) clip(decision.chunk->tag, decision_name_bytes_max);
}

RefusalRuns::Key RefusalRuns::key_of(const Decision& decision) const {
  return {decision.chunk->allocation, of_ == Of::chunk ? decision.chunk->slot : 0,
          decision.to.value_or(Place()), decision.reason.substr(0, decision.reason.find(':'))};
}

std::optional<std::uint64_t> RefusalRuns::entry_of(const Decision& refused) const {
  if (!refused.chunk) return std::nullopt;
  const auto found = entries_.find(key_of(refused));
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

void RefusalRuns::begin(const Decision& refused, std::uint64_t entry) {
  if (!refused.chunk) return;
  if (entries_.size() >= runs_max) entries_.clear();  // At worst some are listed once more.
  entries_[key_of(refused)] = entry;
}

void RefusalRuns::end(const Decision& decision) noexcept {
  if (!decision.chunk) return;
  const auto about = [&](const Key& key) {
    return std::get<0>(key) == decision.chunk->allocation &&
           (of_ == Of::allocation || std::get<1>(key) == decision.chunk->slot);
  };
  // The least target and the empty reason come first.
  auto each = entries_.lower_bound(
      Key{decision.chunk->allocation, of_ == Of::chunk ? decision.chunk->slot : 0, Place(), {}});
  while (each != entries_.end() && about(each->first)) each = entries_.erase(each);
}

}  // namespace vma
