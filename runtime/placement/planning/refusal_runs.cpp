#include "placement/planning/refusal_runs.hpp"

namespace vma {

RefusalRuns::Key RefusalRuns::key_of(const Decision& decision) const {
  return {decision.chunk->allocation, of_ == Of::chunk ? decision.chunk->slot : 0,
          decision.to.value_or(Location()), decision.reason.substr(0, decision.reason.find(':'))};
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
      Key{decision.chunk->allocation, of_ == Of::chunk ? decision.chunk->slot : 0, Location(), {}});
  while (each != entries_.end() && about(each->first)) each = entries_.erase(each);
}

}  // namespace vma
