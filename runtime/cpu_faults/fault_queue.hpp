#pragma once

#include "base/ids.hpp"

#include <atomic>
#include <chrono>
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
  /// `limit`, or until `wake`.
  CpuFault* take_all(std::chrono::nanoseconds limit) noexcept;
  /// The fault is gone when this returns.
  static void answer(CpuFault& fault, CpuFault::Answer answer) noexcept;
  /// Any thread.
  void wake() noexcept;

 private:
  std::atomic<CpuFault*> newest_{nullptr};
  std::atomic<std::uint32_t> pushes_{0};  // What `take_all` sleeps on.
};

}  // namespace vma
