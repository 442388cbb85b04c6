#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "base/part.hpp"
#include "cpu_faults/fault_signals.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"

#include <vma/error.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace vma {

/// Serves the CPU's faults in memory with `CpuAccess::fault`, on a thread of its own, one at a
/// time: fetches the chunk and some behind it to the host node nearest to their GPU, and grants
/// them to the CPU. Any thread.
///
/// It never waits for a move claim, since a hook that runs under one may wait for the thread that
/// faults: such a fault waits in line, and others are served.
/// One owner: what the serving thread uses, and what begins and ends that thread.
class CpuFaults final : private FaultServer, public Part {
 public:
  /// A fault that goes on where the last one of the allocation ended fetches twice as much, up to
  /// so much.
  static constexpr std::uint64_t fetched_bytes_max = std::uint64_t{32} << 20;

  /// Requires: both outlive it.
  CpuFaults(Memory& memory, Migrator& migrator);
  /// Calls `stop_accepting`.
  ~CpuFaults() override;
  CpuFaults(const CpuFaults&) = delete;
  CpuFaults& operator=(const CpuFaults&) = delete;

  /// From now on, faults are served. Idempotent. Throws: Error{busy} if the system cannot start a
  /// thread, {driver_failure} if it installs no handler, {driver_gone} once stopped.
  void begin();
  /// Creates the host memory that the first faults of the allocation need, in the background:
  /// otherwise that takes longer than to fill it. Does not block.
  void prepare(const Allocation& allocation) noexcept;
  /// Faults are segmentation faults from now on. Waits for the one that is being served.
  void stop_accepting() noexcept override;

  /// Accesses that were let through, the chunks fetched for them, and accesses that were refused.
  std::uint64_t served() const noexcept { return served_; }
  std::uint64_t fetched() const noexcept { return fetched_; }
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  Address allocation_around(Address address) const noexcept override;
  FaultQueue& queue() noexcept override { return queue_; }
  int process() const noexcept override { return process_; }

  void run() noexcept;
  bool serve(CpuFault& fault) noexcept;
  std::optional<CpuFault::Answer> answer_to(const CpuFault& fault);
  bool bring(const std::shared_ptr<Allocation>& allocation, std::size_t slot, bool writes);
  SlotRange range_at(Allocation& allocation, std::size_t slot) const;
  void require_progress(const CpuFault& fault, std::uint64_t change);
  void refuse(const CpuFault& fault, const Error& error) noexcept;

  Memory& memory_;
  Migrator& migrator_;
  const int process_;
  FaultQueue queue_;
  /// The last access of a thread that was let through.
  struct Retry {
    Address address{};
    std::uint64_t change = 0;  ///< The slot's `cpu_change` then.
    int fruitless = 0;         ///< How often it faulted again without a change.
  };
  std::map<int, Retry> retries_;  // By thread. Of the service.
  std::atomic<std::uint64_t> served_{0}, fetched_{0}, refused_{0};
  std::atomic<bool> closing_{false};
  ThreadedExecutor threads_;
  Mutex beginning_;
  std::unique_ptr<Task> task_ VMART_GUARDED_BY(beginning_);  // Last: it uses all of the above.
};

}  // namespace vma
