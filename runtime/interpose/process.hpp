#pragma once

#include "base/process_exit.hpp"

#include <array>
#include <atomic>
#include <chrono>

namespace vma::interpose {

/// The program has begun to use the driver, which a child of fork cannot use then.
void note_driver_is_used() noexcept;
bool driver_is_used() noexcept;
/// Called once, when this library is loaded.
void watch_forks() noexcept;
/// Whether this process was forked from one that used the driver. Then every hook passes the call
/// on, and takes no lock, since a thread of the parent may have held it.
bool is_forked_child() noexcept;

/// Writes "vmart run: " and the text as one line to standard error. Takes no lock.
void say(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

/// From now on, a crash inside vmart says what to report before the process ends as it would
/// otherwise. Signals that the program handles stay the program's. `inside` is an address of
/// libvmart. Called once.
void report_crashes(const void* inside) noexcept;

/// The end of the process by `exit` or return from main, for the program's other threads.
///
/// Threads that still call the driver when main returns do no harm without vmart, because the
/// process is gone at once. With vmart, an exit has work to do: stops open, calls of vmart leave
/// the driver, files are written. By then the handlers of CUDA's runtime may have destroyed what
/// those threads use. So once the exit begins, no other thread begins a call of the driver or
/// returns from one. It pauses until the process is gone; but a handler may wait for it, so it goes
/// on after `pause_max`.
class ProgramExit {
 public:
  /// How long the exit waits for calls of the program that are inside the driver.
  static constexpr std::chrono::milliseconds calls_max{500};
  /// The handlers of CUDA's runtime come after the exit has waited for calls of vmart, too.
  static constexpr std::chrono::seconds pause_max =
      ProcessExit::calls_limit + std::chrono::seconds(2);
  static_assert(pause_max > ProcessExit::calls_limit + calls_max);

  /// The scope of a call that a thread of the program makes. Scopes nest; the outermost one counts.
  class Call {
   public:
    Call() noexcept {
      if (depth_++ == 0) begin();
    }
    ~Call() {
      if (--depth_ == 0) end();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
  };

 private:
  /// Whether its thread is inside a call. Only that thread writes to it, and without waiting for
  /// other processors: `run` makes all threads pass a barrier instead.
  struct alignas(64) Slot {
    std::atomic<bool> taken = false;
    std::atomic<bool> inside = false;
  };
  struct Lease;
  static constexpr unsigned slots_max = 1024;  // Further threads pause, but are not waited for.

  static void begin() noexcept;
  static void end() noexcept;
  static void take_slot() noexcept;
  static void come_first() noexcept;
  static void run() noexcept;
  static void pause() noexcept;

  static constinit thread_local int depth_;
  static constinit thread_local Slot* slot_;
  static std::array<Slot, slots_max> slots_;
};

}  // namespace vma::interpose
