#pragma once

#include "base/ids.hpp"
#include "cpu_faults/fault_queue.hpp"

namespace vma {

/// One that serves faults of the CPU at addresses that it knows.
class FaultServer {
 public:
  virtual ~FaultServer() = default;
  /// The start of the allocation around the address; none (zero) if there is no such allocation.
  /// Async-signal-safe.
  virtual Address allocation_around(Address address) const noexcept = 0;
  /// Where faults there wait for a thread that answers them.
  virtual FaultQueue& queue() noexcept = 0;
  /// In which that thread runs.
  virtual int process() const noexcept = 0;
};

/// The process's handler of SIGSEGV and SIGBUS, and the table of those that serve it. The handler
/// hands an access over to its server, waits, and returns into the instruction. All else, and what
/// the server refuses, goes to the former handler. On the thread that faults, it only reads atomic
/// variables and makes system calls; errno is preserved.
class FaultSignals {
 public:
  /// Also installs the handler, the first time. Throws: Error{busy} if there are too many servers,
  /// {driver_failure} if the system installs no handler.
  static void add(FaultServer& server);
  /// No handler uses the server any more when this returns. Blocks: for those that wait for an
  /// answer, so that some thread must go on answering. Does nothing for one that is not there.
  static void remove(FaultServer& server) noexcept;
};

}  // namespace vma
