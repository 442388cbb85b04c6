#pragma once

#include "base/process_exit.hpp"

#include <atomic>

namespace vma {

/// What the program wants to do before its attached streams are stopped for a live move: it may
/// detach those that are idle, since each one makes it harder to stop all of them together. One
/// call for the process. Any thread.
class BeforeStops {
 public:
  using Call = void (*)(void* data);

  static BeforeStops& of_process() noexcept {
    static constinit BeforeStops only;  // Needs no memory, and no destruction.
    return only;
  }

  /// Null: nothing is called from now on, except by threads that have begun to call it. Throws:
  /// std::bad_alloc.
  void set(Call call, void* data) {
    // Never freed: a thread may be about to use the last one.
    known_.store(call != nullptr ? new Known{call, data} : nullptr);
  }
  /// Requires: the calling thread has stopped nothing and uses no streams.
  void call() const noexcept {
    const ProcessExit::DriverCall scope;  // The program's function calls the driver.
    if (const Known* const known = scope ? known_.load() : nullptr) known->call(known->data);
  }

 private:
  struct Known {
    Call call;
    void* data;
  };
  std::atomic<const Known*> known_{nullptr};
};

}  // namespace vma
