#include "migrate/moves/held_ranges.hpp"

#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/move_account.hpp"

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

HeldRange::HeldRange(Allocation& which, SlotRange slots, Place target, MigrationTask* how)
    : allocation(which), range(slots), to(target), task(how), report(report_of(which, slots)) {
  report.failures.reserve(2);  // For a failed chunk, and for one whose copy failed ahead of it.
}

bool HeldRange::unwanted() const noexcept {
  return allocation.being_freed || (task != nullptr && task->cancelled());
}

bool HeldRange::has_all() const noexcept {
  return std::ranges::all_of(transactions, [](const Transaction& transaction) {
    return transaction.state() == Transaction::State::switched;
  });
}

std::uint64_t HeldRange::missing_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const Transaction& transaction : transactions) {
    if (transaction.state() == Transaction::State::planned) bytes += transaction.size_bytes();
  }
  return bytes;
}

void HeldRange::refuse(std::exception_ptr why) noexcept {
  untold = false;  // It is not tried again.
  failure = std::move(why);
  report.outcome = Outcome::failed;
  transactions.clear();
}

void HeldRange::fail(const Transaction& transaction, std::exception_ptr why) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& error) {
    note_failure(report, transaction, error);  // There is room for two.
  }
  if (!failure) failure = std::move(why);
}

void HeldRange::summarise() noexcept {
  report.bytes_moved = report.bytes_remapped = 0;
  report.chunks_moved = 0;
  for (const Transaction& transaction : transactions) {
    report.dark_max = std::max(report.dark_max, transaction.dark());
    if (transaction.state() == Transaction::State::switched) note_moved(report, transaction);
  }
  if (failure) {
    report.outcome = outcome_of_failure(report);
  } else {
    report.outcome = has_all() ? Outcome::done : Outcome::cancelled;
  }
}

void HeldRange::tell_progress(Callbacks& callbacks) noexcept {
  if (task == nullptr && !on_progress) return;
  summarise();
  if (!has_all()) report.outcome = Outcome::partly;  // So far.
  if (task != nullptr) return task->tell(report);
  vma::tell_progress(callbacks, on_progress, report);
}

HeldGroup::HeldGroup(std::span<const RequestedRange> wanted, const MigrationTerms& terms,
                     GroupAccount& account)
    : waits_for_claims_(terms.waits_for_claims) {
  alone_.reserve(wanted.size());  // A hook may be added meanwhile.
  for (std::size_t which = 0; which < wanted.size(); ++which) {
    const auto& [allocation, range, to] = wanted[which];
    HeldRange& held = ranges_.emplace_back(*allocation, range, to);
    held.on_progress = account.progress_of(which);
    if (allocation->hooks().empty() && allocation->importers().empty()) {
      together_.push_back(&held);
      allocations_.push_back(allocation);
    } else {
      alone_.push_back(&held);
    }
  }
}

HeldGroup::~HeldGroup() {
  end_together();
  for (HeldRange* const range : alone_) {
    if (range->reserved().empty()) continue;
    const MoveClaim claim = MoveClaim::take(range->allocation.shared_from_this());
    range->reserved().give_back();
  }
}

bool HeldGroup::reserve(MigrationParts& parts, const MigrateOptions& options,
                        const MigrationTerms& terms) {
  std::vector<JointMove> moves;
  for (const auto* ranges : {&alone_, &together_}) {
    for (HeldRange* const range : *ranges) {
      moves.push_back({{range->allocation.shared_from_this(), range->range, range->to},
                       range->reserved(),
                       range->failure});
    }
  }
  return reserve_targets(parts, options, terms, "vma::migrate", moves,
                         [&](std::size_t which, const std::function<void()>& body) {
                           MoveClaim claim;
                           if (which < alone_.size()) {
                             claim = MoveClaim::take(moves[which].wanted.allocation);
                           } else {
                             claim_together();
                           }
                           body();
                         });
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
    range->reserved().give_back();
    if (range->untold) alone_.push_back(range);
  }
  together_.clear();
  claims_.clear();
}

}  // namespace vma
