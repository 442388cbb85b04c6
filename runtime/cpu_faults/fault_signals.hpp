#pragma once

#include "base/ids.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>

namespace vma {

/// One access of the CPU that faulted, on the stack of the thread that waits for its answer.
struct CpuFault {
  enum class Answer : std::uint32_t {
    none,     ///< Not yet.
    retry,    ///< The CPU has access now.
    refused,  ///< It gets none, and standard error says why.
    foreign,  ///< The address is none of ours.
  };

  Address address{};
  bool writes = false;
  int thread = 0;  // The system's id.
  std::atomic<Answer> answer{Answer::none};
  CpuFault* next = nullptr;  // Of the queue, then of the service.
};

/// Takes faults from any number of signal handlers to one thread.
class FaultQueue {
 public:
  FaultQueue() = default;
  FaultQueue(const FaultQueue&) = delete;
  FaultQueue& operator=(const FaultQueue&) = delete;

  /// Waits until the fault is answered. Async-signal-safe; changes errno.
  static CpuFault::Answer await(CpuFault& fault) noexcept;
  /// Async-signal-safe; changes errno. Then `await` it: until then the fault belongs to the queue.
  void push(CpuFault& fault) noexcept;

  // --- One thread
  /// All that wait, the oldest first; null if there is none, which waits for one for at most
  /// `limit`, or until `wake` or `close`. Once closed, it waits no longer.
  CpuFault* take_all(std::chrono::nanoseconds limit) noexcept;
  /// The fault is gone when this returns.
  static void answer(CpuFault& fault, CpuFault::Answer answer) noexcept;
  bool is_closed() const noexcept { return closed_; }
  /// Any thread.
  void wake() noexcept;
  void close() noexcept;
  void open() noexcept { closed_ = false; }

 private:
  std::atomic<CpuFault*> newest_{nullptr};
  std::atomic<std::uint32_t> pushes_{0};  // What `take_all` sleeps on.
  std::atomic<bool> closed_{false};       // Told by `pushes_`, which has to be read first.
};

/// What a process did about SIGSEGV and SIGBUS before the runtime took them, and still does about
/// those that are none of the runtime's.
class FormerHandlers {
 public:
  /// Installs `handler` for both signals and remembers what was there. Once a process, and
  /// again if that has failed; never undone, since others may have saved `handler` to call it.
  /// Throws: Error{driver_failure}.
  static void replace_by(void (*handler)(int, siginfo_t*, void*));
  /// Does with the signal what would have happened without the runtime: calls the former handler
  /// with its mask and flags, or takes the default action: then this returns, and the access
  /// faults again. Async-signal-safe, as far as the former handler is.
  static void call(int signal, siginfo_t* info, void* context) noexcept;
};

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
