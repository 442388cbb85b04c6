#pragma once

#include "memory/move_claim.hpp"
#include "migrate/migration/group_account.hpp"
#include "migrate/migration/requested_range.hpp"
#include "migrate/migration/target_reservation.hpp"
#include "migrate/moves/held_range.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace vma {

/// The ranges of one call that waits: those that share a hold, and those of allocations with hooks,
/// which move alone, since a hook may free other memory, and the free would wait for its claim. One
/// thread.
///
/// The targets of those that move alone are reserved first, each with its claim for that time: a
/// thread takes claims in the order of their addresses, and from then on has those of all that move
/// together.
class HeldGroup final : public JointMoves {
 public:
  /// `wanted` outlives it. Throws: std::bad_alloc.
  HeldGroup(std::span<const RequestedRange> wanted, const MoveTerms& terms, GroupAccount& account);
  /// Gives back targets that were not needed.
  ~HeldGroup() override;
  HeldGroup(const HeldGroup&) = delete;
  HeldGroup& operator=(const HeldGroup&) = delete;

  /// In the order of the requests.
  std::deque<HeldRange>& ranges() noexcept { return ranges_; }
  /// Those that share a hold, with their claims; without those that are not waited for. Blocks:
  /// while another thread has a claim.
  std::span<HeldRange* const> claim_together();
  /// They have ended; those left `untold` move alone.
  void end_together() noexcept;
  std::span<HeldRange* const> alone() const noexcept { return alone_; }
  /// The claim of one of these; empty if it is not waited for.
  MoveClaim claim_alone(HeldRange& range) const;

  std::size_t count() const noexcept override { return reserving_.size(); }
  RequestedRange wanted(std::size_t which) const override { return wanted_[reserving_[which]]; }
  ReservedTargets& targets(std::size_t which) noexcept override {
    return targets_[reserving_[which]];
  }
  void with_claim(std::size_t which, const std::function<void()>& body) override;
  void refuse(std::size_t which, std::exception_ptr why) noexcept override;

 private:
  const std::span<const RequestedRange> wanted_;
  const bool waits_for_claims_;
  std::deque<HeldRange> ranges_;
  std::deque<ReservedTargets> targets_;
  std::vector<std::shared_ptr<Allocation>> allocations_;  // Of those that share a hold.
  std::vector<HeldRange*> together_, alone_;
  std::vector<std::size_t> reserving_;  // Numbers of requests: in the order of the reservation.
  std::size_t reserved_alone_ = 0;      // So many of these move alone.
  std::vector<MoveClaim> claims_;
};

}  // namespace vma
