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

inline constexpr std::uint64_t page_bytes = 4096;  // Of simulated machines for tests.

/// A simulated machine, the drivers that delay, trace and fail its calls, and a Memory on top of
/// them, with every GPU's primary context active. A failed call is not traced. When it ends,
/// nothing may be left in the machine but what the ledger has counted as leaked.
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

  /// From now on the n-th (from 0) of just these calls fails, for each n given.
  void fail(std::set<Call> calls, std::set<int> numbers);
  void fail_nothing() { faults_.fail_calls({}); }

  /// Each of these calls takes so much longer from now on.
  void delay(Call call, TimePoint duration) { delays_.delay_each(call, duration); }

  void forget_calls() { trace_.clear(); }
  /// Calls since `forget_calls`.
  int calls(Call call) const;
  std::vector<TracedCall> trace() const { return trace_.calls(); }

  /// A kernel that takes so long by the machine's clock.
  void launch_spin(BoundStream stream, TimePoint duration);
  /// A kernel that ends the process's luck: it stores where nothing is mapped.
  void break_context(BoundStream stream);
  /// The stream stands until `*word` is 1.
  std::uint64_t* stop(BoundStream stream);
  static void let_go(std::uint64_t* word);
  void let_all_go();

  std::shared_ptr<Allocation> alloc(std::uint64_t pages, Location at,
                                    std::uint64_t chunk_pages = 0);
  void free(const std::shared_ptr<Allocation>& allocation) { memory_->free(allocation->begin()); }
  /// A new chunk, booked as allocated.
  Chunk chunk(Location at, std::uint64_t pages);
  void unclaim(const Chunk& chunk);
  std::uint64_t cached(Location at) { return memory_->chunks().cache().cached_bytes(at); }
  Ledger::Account account(Location at) { return memory_->chunks().ledger().account(at); }

  /// Every page of the allocation shows its chunk's place and all its readers may use it.
  void expect_shown(const Allocation& allocation);
  /// Ends the memory now; the machine lives on.
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

/// Runs the body as a member of a stepped machine, in virtual time.
void step(std::uint64_t seed, const std::function<void(const SimOptions&)>& body);
/// Lets so much of the machine's time pass.
void sleep(MemoryRig& rig, TimePoint duration);
/// The error that `body` throws; a failure of the test if it throws none.
Error expect_error(ErrorKind kind, const std::function<void()>& body);
bool says(const Error& error, const std::string& text);
/// Waits for another thread's doing; false after half a minute.
bool comes_true(const std::function<bool()>& condition);
/// Waits until what `free_async` freed is back, then checks the books. Requires: no call is under
/// way.
void check_settled(Memory& memory);

}  // namespace vma
