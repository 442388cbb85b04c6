#pragma once

#include "base/process_exit.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace vma {

/// A function of the program that the runtime calls; none at first. Any thread.
template <typename... Args>
class ProgramCall {
 public:
  using Function = void (*)(Args... args, void* data);
  struct Known {
    Function function;
    void* data;
    const Known* before;  ///< What was set before it.
    void operator()(Args... args) const noexcept { function(args..., data); }
  };

  /// Null: nothing is called from now on, except by threads that have begun to call it. Throws:
  /// std::bad_alloc.
  void set(Function function, void* data) {
    if (function == nullptr) return known_.store(nullptr);
    // Never freed: a thread may be about to use the last one.
    auto* const next = new Known{function, data, last_.load()};
    while (!last_.compare_exchange_weak(next->before, next)) {
    }
    known_.store(next);
  }
  /// Null if there is none. Lives as long as the process.
  const Known* get() const noexcept { return known_.load(); }

 private:
  std::atomic<const Known*> known_{nullptr};
  std::atomic<const Known*> last_{nullptr};  // Leak checkers find all of them from here.
};

/// What the program wants to be asked to do, one function each for the process.
class ProgramCalls {
 public:
  static ProgramCalls& of_process() noexcept {
    static constinit ProgramCalls only;  // Needs no memory, and no destruction.
    return only;
  }

  /// Before attached streams are stopped for a live move: the program may detach those that are
  /// idle, since each one makes it harder to stop all of them together. Requires: the calling
  /// thread has stopped nothing and uses no streams.
  void detach_idle_streams() const noexcept {
    const ProcessExit::DriverCall scope;  // The program's function calls the driver.
    const auto* const call = scope ? before_stops.get() : nullptr;
    if (call != nullptr) (*call)();
  }

  ProgramCall<> before_stops;
  /// For so many nanoseconds at most, no thread of the program begins to launch; zero ends that.
  ProgramCall<std::int64_t> pause_launches;
};

}  // namespace vma
