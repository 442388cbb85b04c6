#pragma once

#include "support/drivers/delay_driver.hpp"
#include "support/drivers/fault_driver.hpp"
#include "support/drivers/trace_driver.hpp"
#include "machine/topology.hpp"
#include "memory/memory.hpp"
#include "sim/sim_driver.hpp"

#include <vma/error.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {

// The granularity of the simulated machines for tests.
inline constexpr std::uint64_t page_bytes = 4096;

/// A simulated machine, drivers that delay, trace and fail its calls, and a Memory on top of them,
/// with the primary context of every GPU active. A failed call is not traced. At its end, the
/// machine may hold only what the ledger has counted as leaked or kept.
class MemoryRig {
 public:
  explicit MemoryRig(const std::string& machine = "test-2", const MemoryLimits& limits = {},
                     const SimOptions& options = {});
  ~MemoryRig();
  MemoryRig(const MemoryRig&) = delete;
  MemoryRig& operator=(const MemoryRig&) = delete;

  SimDriver& machine() { return machine_; }
  FaultDriver& driver() { return faults_; }
  const Topology& topology() const { return topology_; }
  Memory& memory() { return *memory_; }
  std::uint64_t page() const { return topology_.granularity(); }
  ContextHandle context(int gpu) const { return contexts_.at(static_cast<std::size_t>(gpu)); }
  BoundStream new_stream(int gpu);

  /// From now on, these calls are counted from 0 and those in `numbers` fail.
  void fail(std::set<Call> calls, std::set<int> numbers);
  void fail_nothing() { faults_.fail_calls({}); }

  /// From now on each of these calls takes that much longer.
  void delay(Call call, TimePoint duration) { delays_.delay_each(call, duration); }

  void forget_calls() { trace_.clear(); }
  /// The number of calls since `forget_calls`.
  int calls(Call call) const;
  std::vector<TracedCall> trace() const { return trace_.calls(); }

  /// Launches a kernel that runs for `duration` on the machine's clock.
  void launch_spin(BoundStream stream, TimePoint duration);
  /// Launches a kernel that writes to unmapped memory, which breaks the context for good.
  void break_context(BoundStream stream);
  /// Makes the stream wait until `*word` is 1.
  std::uint64_t* stop(BoundStream stream);
  static void let_go(std::uint64_t* word);
  void let_all_go();

  std::shared_ptr<Allocation> alloc(std::uint64_t pages, Place at, std::uint64_t chunk_pages = 0);
  void free(const std::shared_ptr<Allocation>& allocation) { memory_->free(allocation->begin()); }
  /// A new chunk, booked as allocated.
  Chunk chunk(Place at, std::uint64_t pages);
  void unclaim(const Chunk& chunk);
  /// The chunks of all slots, which are unmapped.
  static std::vector<Chunk> take_apart(Allocation& allocation);
  std::uint64_t cached(Place at) { return memory_->chunks().cache().cached_bytes(at); }
  Ledger::Account account(Place at) { return memory_->chunks().ledger().account(at); }

  /// Checks that every page shows its chunk's place and that all its readers have access.
  void expect_shown(const Allocation& allocation);
  /// Ends the memory now; the machine stays.
  void close() { memory_.reset(); }

 private:
  SimDriver machine_;
  DelayDriver delays_;
  TraceDriver trace_;
  FaultDriver faults_;
  const Topology topology_;
  std::vector<ContextHandle> contexts_;
  std::vector<BoundStream> streams_;
  std::vector<std::uint64_t*> words_;
  std::unique_ptr<Memory> memory_;
};

/// Runs the body as a thread of a stepped machine, in virtual time.
void step(std::uint64_t seed, const std::function<void(const SimOptions&)>& body);
/// Lets that much of the machine's time pass.
void sleep(MemoryRig& rig, TimePoint duration);
/// Returns the error that `body` throws; the test fails if it throws none.
Error expect_error(ErrorKind kind, const std::function<void()>& body);
bool says(const Error& error, const std::string& text);
/// Waits for another thread; false after half a minute.
bool comes_true(const std::function<bool()>& condition);
/// Waits until everything freed by `free_async` is back, then checks the books. Requires: no call
/// is in progress.
void check_settled(Memory& memory);

}  // namespace vma
