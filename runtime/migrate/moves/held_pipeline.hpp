#pragma once

#include "migrate/stops/stopped_work.hpp"
#include "migrate/migration/exporter_moves.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/moves/ahead_copies.hpp"
#include "migrate/moves/held_ranges.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

/// Copies and switches the chunks of a held move, while all work is stopped or nothing runs.
///
/// All copies are started first. Under a hold, a slot shows its target beside its copy if an unmap
/// does not wait for that copy: one by one in host memory, which takes as long to map as to fill,
/// and several at once between GPUs, if kernels copy the first chunks meanwhile. Other slots are
/// switched in order, each once it is copied, beside the copies behind it.
///
/// Memory that other processes have imported is switched as a whole, after it was copied as a
/// whole: the slots show their targets, then the move is decided for all processes, and then the
/// slots keep them, which cannot fail.
///
/// The first chunk of a range that fails ends the range; its chunks that are copied or shown by
/// then still move. One thread.
class HeldPipeline {
 public:
  static constexpr std::size_t copies_in_flight_max = 1024;

  /// All arguments outlive it; `order` is filled before `run`.
  HeldPipeline(MigrationParts& parts, const std::vector<HeldStep>& order, AheadCopies& ahead,
               const MigrateOptions& options);

  /// Ensures: every slot shows its source or its target, complete, or is poisoned. Failures are in
  /// the ranges. `hold` is null if nothing runs.
  void run(StoppedWork* hold) noexcept;
  /// The same for one range, whose importers have stopped. `under` is what has stopped the work
  /// here, which may also be a gate.
  void run_with(ExporterMove& importers, StoppedWork* hold, CopyUnder under) noexcept;
  bool ran() const noexcept { return dark_.has_value(); }

 private:
  using Route = std::pair<Place, Place>;

  void begin(StoppedWork* hold) noexcept;
  void copy_all() noexcept;
  bool show_all() noexcept;
  bool decide(ExporterMove& importers) noexcept;
  void take_all_back() noexcept;
  template <typename Body>
  void attempt(std::size_t place, Body&& body) noexcept;
  bool goes_on(std::size_t place) const noexcept;
  void plan_kernels();
  bool uses_kernels(const HeldStep& turn) const;
  void start(HeldStep turn);
  void show_beside_copy(std::size_t place) noexcept;
  void finish(HeldStep turn);
  void complete(HeldStep turn);
  void await_copy(HeldStep turn);
  void settle_all() noexcept;

  MigrationParts& parts_;
  Clock& clock_;
  const std::vector<HeldStep>& order_;
  AheadCopies& ahead_;
  const MigrateOptions& options_;
  CopyUnder under_;
  std::optional<DarkTimes> dark_;  // Once it runs.
  TimePoint begun_{0};             // Start of the first copy.
  std::size_t arriving_ = 0;       // Slots that show a target which is not complete.
  bool patience_is_over_ = false;  // A copy did not end in time: no other is waited for.
  std::map<Route, std::uint64_t> kernel_bytes_;  // Still to be copied by kernels.
};

}  // namespace vma
