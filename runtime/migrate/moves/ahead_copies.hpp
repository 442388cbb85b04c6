#pragma once

#include "base/units.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/moves/held_ranges.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace vma {

/// Decides whether the copies of one held move are enqueued just before its hold takes effect, in
/// contexts of the program, and enqueues them. Otherwise they need a context of the
/// runtime's own. README.md here has the order of the calls.
///
/// One thread, the one of the migration.
class AheadCopies final : public BeforeHold {
 public:
  /// Each call that enqueues a copy lengthens the time in which work of other threads is not
  /// covered.
  static constexpr std::size_t copies_max = 64;
  /// A try that fails must wait for the copies before the next one. A larger migration may take the
  /// time and memory that a context of its own costs.
  static constexpr std::uint64_t bytes_max = 8 * GiB;

  /// Both outlive it. `order` is filled before the first copy is enqueued.
  AheadCopies(MigrationParts& parts, std::span<HeldRange* const> ranges,
              const std::vector<HeldStep>& order);

  /// Requires: the ranges are planned.
  void choose();
  bool used() const noexcept { return used_; }
  /// What is stopped when the copies are enqueued. Requires: chosen.
  CopyUnder under() const noexcept { return used_ ? CopyUnder::nothing : CopyUnder::hold; }
  /// Sets up the routes of the range. Blocks: for a fifth of a second if a context is new.
  void prepare(const HeldRange& range);

  void enqueue(std::span<const EventHandle> at_rest, TimePoint deadline) override;
  void recall(TimePoint deadline) override;
  /// Throws: what kept the copy of the chunk from being enqueued. Requires: the hold is closed; the
  /// chunks of the range before it have been passed here.
  void require_started(HeldStep turn);

 private:
  using Route = std::pair<Place, Place>;

  bool may_run_ahead() const;
  bool needs_new_context() const;
  void start(HeldStep turn, std::span<const EventHandle> at_rest, TimePoint deadline);

  MigrationParts& parts_;
  const std::span<HeldRange* const> ranges_;
  const std::vector<HeldStep>& order_;
  bool used_ = false;
  std::size_t chunks_ = 0;      // That were planned when it was chosen.
  std::vector<Route> ordered_;  // Those that wait for the events of this try.
};

}  // namespace vma
