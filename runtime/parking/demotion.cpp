#include "parking/demotion.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// Consecutive slots of one allocation that can move.
struct Run {
  std::shared_ptr<Allocation> allocation;
  SlotRange range;
  std::uint64_t size_bytes = 0;
  Place to;
  // Restored after the move, so that the allocation's remaining slots stay equally old and go next.
  TimePoint placed_at{0};
};

class Demoter {
 public:
  Demoter(Memory& memory, Migrator& migrator, const Demotion& wanted)
      : memory_(memory), migrator_(migrator), wanted_(wanted), clock_(memory.driver().clock()) {
    for (const Place at : wanted.order) room_bytes_[at] = memory.chunks().room_bytes(at);
  }

  Demoted run() {
    for (const Run& run : runs()) submit(run, Mode::automatic);
    const std::uint64_t bytes_moved = wait_for_all();
    return {bytes_moved, others_at_work_};
  }

 private:
  /// Allocations that may move, whose work can be stopped, and that no other thread moves or frees,
  /// longest at their place first.
  std::vector<std::shared_ptr<Allocation>> candidates() {
    std::vector<std::pair<TimePoint, std::shared_ptr<Allocation>>> found;
    for (std::shared_ptr<Allocation>& allocation : memory_.registry().all()) {
      if (!allocation->may_move() || allocation->poisoned()) continue;
      if (!migrator_.may_stop_for(allocation->begin())) continue;
      if (allocation->being_freed || allocation->moving()) {
        others_at_work_ = true;  // It leaves, or may be taken once it has arrived.
        continue;
      }
      const TimePoint placed_at = allocation->placed_at;
      found.emplace_back(placed_at, std::move(allocation));
    }
    std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
    std::vector<std::shared_ptr<Allocation>> allocations;
    allocations.reserve(found.size());
    for (auto& one : found) allocations.push_back(std::move(one.second));
    return allocations;
  }

  std::optional<Place> place_for(const Allocation& allocation, std::size_t slot,
                                 std::uint64_t size_bytes) {
    for (const Place at : wanted_.order) {
      if (at == wanted_.at || room_bytes_[at] < size_bytes) continue;
      if (!migrator_.reach().allows(allocation, slot, at)) continue;
      if (room_bytes_[at] != UINT64_MAX) room_bytes_[at] -= size_bytes;
      return at;
    }
    return std::nullopt;
  }

  bool any_has_room(std::uint64_t size_bytes) const {
    return std::ranges::any_of(wanted_.order, [&](Place at) {
      return at != wanted_.at && room_bytes_.at(at) >= size_bytes;
    });
  }

  /// Returns enough chunks for `size_bytes`, and no more.
  std::vector<Run> runs_of(const std::shared_ptr<Allocation>& allocation,
                           std::uint64_t size_bytes) {
    std::vector<Run> runs;
    std::uint64_t found_bytes = 0;
    const Geometry& geometry = allocation->geometry();
    for (std::size_t slot = 0; slot < geometry.slots && found_bytes < size_bytes; ++slot) {
      if (allocation->place(slot) != wanted_.at || allocation->dropped(slot)) continue;
      const std::uint64_t slot_bytes = geometry.slot_bytes(slot);
      const std::optional<Place> to = place_for(*allocation, slot, slot_bytes);
      if (!to && !any_has_room(slot_bytes)) return runs;
      if (!to) continue;  // This slot's users reach none of the places; users of other slots may.
      found_bytes += slot_bytes;
      if (!runs.empty() && runs.back().range.end == slot && runs.back().to == *to) {
        ++runs.back().range.end;
        runs.back().size_bytes += slot_bytes;
      } else {
        runs.push_back({allocation, {slot, slot + 1}, slot_bytes, *to, allocation->placed_at});
      }
    }
    return runs;
  }

  void submit(const Run& run, Mode mode) {
    MigrateOptions options;
    options.scope = StopScope::attached;
    options.mode = mode;
    tasks_.emplace_back(run, migrator_.submit(run.allocation, run.range, run.to, options, terms_));
  }

  /// Enough for what is wanted, or all.
  std::vector<Run> runs() {
    std::vector<Run> runs;
    std::uint64_t planned_bytes = 0;
    for (const std::shared_ptr<Allocation>& allocation : candidates()) {
      if (planned_bytes >= wanted_.size_bytes || clock_.now() >= wanted_.until) break;
      for (Run& run : runs_of(allocation, wanted_.size_bytes - planned_bytes)) {
        planned_bytes += run.size_bytes;
        runs.push_back(std::move(run));
      }
    }
    return runs;
  }

  /// Live copies need some memory of the full place for their digests. Chunks that fail for lack of
  /// it are moved again, stopped.
  std::uint64_t wait_for_all() {
    std::uint64_t moved_bytes = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {  // The loop may append tasks.
      const auto [run, task] = tasks_[i];
      const TimePoint now = clock_.now();
      const bool done = task->wait_for(std::max(wanted_.until, now) - now);
      if (!done) task->cancel();
      moved_bytes += task->report().bytes_moved;
      run.allocation->placed_at = run.placed_at;
      const bool live = task->options.mode != Mode::stopped;
      const std::optional<ErrorKind> failure = failure_of(*task);
      // Another thread may have claimed it.
      others_at_work_ |= failure == ErrorKind::busy && run.allocation->moving();
      if (done && live && failure == ErrorKind::out_of_memory) submit(run, Mode::stopped);
    }
    return moved_bytes;
  }

  static std::optional<ErrorKind> failure_of(const MigrationTask& task) {
    const std::exception_ptr failure = task.error();
    if (!failure) return std::nullopt;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      return error.kind();
    }
  }

  static constexpr MigrationTerms terms_{.asks_for_room = false,
                                         .waits_for_claims = false,
                                         .requires_guards = false,  // Memory that is wanted now.
                                         .choice = PlaceChoice::runtime};
  Memory& memory_;
  Migrator& migrator_;
  const Demotion& wanted_;
  Clock& clock_;
  std::map<Place, std::uint64_t> room_bytes_;
  bool others_at_work_ = false;
  std::vector<std::pair<Run, std::shared_ptr<MigrationTask>>> tasks_;
};

}  // namespace

Demoted demote(Memory& memory, Migrator& migrator, const Demotion& wanted) {
  return Demoter(memory, migrator, wanted).run();
}

}  // namespace vma
