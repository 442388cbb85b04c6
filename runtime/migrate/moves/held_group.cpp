#include "migrate/moves/held_group.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace vma {
namespace {

void refuse_busy(HeldRange& range) {
  range.refuse(std::make_exception_ptr(
      Error(ErrorKind::busy, "vma::migrate", "another thread moves or frees it")));
}

}  // namespace

HeldGroup::HeldGroup(std::span<const RequestedRange> wanted, const MoveTerms& terms,
                     GroupAccount& account)
    : wanted_(wanted), waits_for_claims_(terms.waits_for_claims) {
  alone_.reserve(wanted.size());  // A hook may be added meanwhile.
  std::vector<std::size_t> shared;
  for (std::size_t which = 0; which < wanted.size(); ++which) {
    const auto& [allocation, range, to] = wanted[which];
    HeldRange& held = ranges_.emplace_back(*allocation, range, to);
    held.on_progress = account.progress_of(which);
    held.reserved = &targets_.emplace_back();
    if (allocation->hooks().empty() && allocation->importers().empty()) {
      together_.push_back(&held);
      allocations_.push_back(allocation);
      shared.push_back(which);
    } else {
      alone_.push_back(&held);
      reserving_.push_back(which);
    }
  }
  reserved_alone_ = reserving_.size();
  reserving_.insert(reserving_.end(), shared.begin(), shared.end());
}

HeldGroup::~HeldGroup() {
  end_together();
  for (HeldRange* const range : alone_) {
    if (range->reserved->empty()) continue;
    const MoveClaim claim = MoveClaim::take(range->allocation.shared_from_this());
    range->reserved->give_back();
  }
}

std::span<HeldRange* const> HeldGroup::claim_together() {
  if (waits_for_claims_) {
    if (claims_.empty()) claims_ = MoveClaim::take_all(allocations_);
    return together_;
  }
  std::map<const Allocation*, bool> claimed;
  for (const std::shared_ptr<Allocation>& allocation : allocations_) {
    const auto [known, fresh] = claimed.try_emplace(allocation.get(), false);
    if (!fresh) continue;
    claims_.push_back(MoveClaim::try_take(allocation));
    known->second = static_cast<bool>(claims_.back());
  }
  std::erase_if(together_, [&](HeldRange* range) {
    if (claimed.at(&range->allocation)) return false;
    refuse_busy(*range);
    return true;
  });
  return together_;
}

MoveClaim HeldGroup::claim_alone(HeldRange& range) const {
  std::shared_ptr<Allocation> allocation = range.allocation.shared_from_this();
  if (waits_for_claims_) return MoveClaim::take(std::move(allocation));
  MoveClaim claim = MoveClaim::try_take(std::move(allocation));
  if (!claim) refuse_busy(range);
  return claim;
}

void HeldGroup::end_together() noexcept {
  for (HeldRange* const range : together_) {
    range->reserved->give_back();
    if (range->untold) alone_.push_back(range);
  }
  together_.clear();
  claims_.clear();
}

void HeldGroup::with_claim(std::size_t which, const std::function<void()>& body) {
  if (which >= reserved_alone_) {
    claim_together();
    return body();
  }
  const MoveClaim claim = MoveClaim::take(wanted(which).allocation);
  body();
}

void HeldGroup::refuse(std::size_t which, std::exception_ptr why) noexcept {
  ranges_[reserving_[which]].refuse(std::move(why));
}

}  // namespace vma
