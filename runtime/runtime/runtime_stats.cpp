#include "runtime/runtime_stats.hpp"

#include "runtime/place_states.hpp"

#include <algorithm>
#include <memory>
#include <string>

namespace vma {

namespace {

std::uint64_t capacity_bytes(Memory& memory, Place at, std::uint64_t most_bytes) {
  const std::uint64_t all_bytes = place_bytes(memory.driver(), memory.topology(), at);
  if (all_bytes == 0) return most_bytes == UINT64_MAX ? 0 : most_bytes;
  return std::min(all_bytes, most_bytes);
}

}  // namespace

RuntimeStats runtime_stats(Memory& memory, Migrator& migrator, Parker& parker,
                           GpuMonitor& monitor) {
  RuntimeStats stats;
  for (const Place at : memory.topology().places()) {
    const Ledger::Account account = memory.chunks().ledger().account(at);
    const bool is_gpu = at.kind == Place::Kind::gpu;
    const std::uint64_t context_bytes =
        is_gpu ? migrator.own_context_bytes(DeviceId{at.ordinal}) : 0;
    stats.places.push_back({at, capacity_bytes(memory, at, account.capacity_bytes),
                            account.allocated_bytes, account.cached_bytes, account.own_bytes,
                            account.leaked_bytes, account.copies_bytes, context_bytes});
  }
  for (const std::shared_ptr<Allocation>& allocation : memory.registry().all()) {
    ++stats.allocations;
    stats.poisoned += allocation->poisoned() ? 1 : 0;
    stats.dropped_bytes += allocation->dropped_bytes();
  }
  stats.parked = parker.parked();
  stats.leaked = memory.chunks().ledger().leaks();
  stats.migrations = migrator.migrations();
  stats.bytes_moved = migrator.bytes_moved();
  stats.bytes_copied_twice = migrator.bytes_copied_twice();
  const CleanCopies::Counts copies = memory.chunks().copies().counts();
  stats.copies_kept = copies.kept;
  stats.copies_used = copies.used;
  stats.copies_dropped = copies.dropped;
  stats.bytes_remapped = copies.used_bytes;
  stats.callbacks_failed = migrator.callbacks().failed();
  const StopStats& stops = migrator.stats();
  stats.skew = stops.skew();
  stats.stall = stops.stall();
  stats.stall_held = migrator.stats(StopKind::hold).stall();
  stats.stall_suspended = migrator.stats(StopKind::suspension).stall();
  stats.gates = stats.skew.count;
  for (const auto& [refusal, count] : stops.refusals()) {
    stats.gates_given_up_by_reason[std::string(to_string(refusal))] = count;
    stats.gates_given_up += count;
  }
  stats.loads = monitor.loads();
  return stats;
}

SchedulerStats scheduler_stats(const Scheduler& scheduler, const EventFeed& feed) {
  SchedulerStats stats = scheduler.stats();
  stats.events_lost = feed.ring().lost();
  stats.trace_lost = feed.trace_lost();
  return stats;
}

AllocationInfo allocation_info(const Allocation& allocation, Parker& parker) {
  return {to_pointer(allocation.begin()),
          allocation.size_bytes(),
          allocation.geometry().chunk_bytes,
          allocation.tag,
          allocation.may_move(),
          parker.holds(allocation),
          allocation.cpu == CpuAccess::fault,
          allocation.extents()};
}

}  // namespace vma
