#pragma once

#include "base/thread_parts.hpp"

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace vma {

/// The end of the process by `exit`, return from main, or `quick_exit`; not by `_exit` or a signal.
///
/// One handler does all the work, in stages:
///
///     begun           no new call enters a runtime, and no new stop closes
///     open_stops      the application's work continues, and no slot is dark any more
///     let_copies_go   copies that a stop held back continue
///     write_files     traces, recordings and decisions are on disk, sockets are removed
///     closed          no driver call is made any more, and none is in progress
///
/// The driver and the statics of libraries are destroyed by handlers that run later, because they
/// were registered earlier. Therefore, the handler is registered again whenever a library has been
/// loaded since (`come_first`).
///
/// Meanwhile, threads of the runtime and threads inside its calls are paused (`hold_back`), because
/// any error that they report would only be a consequence of the exit. A static destructor may wait
/// for one of them, so they continue after `grace`, and then find the driver closed.
class ProcessExit {
 public:
  enum class Stage { open_stops, let_copies_go, write_files };
  static constexpr std::chrono::milliseconds grace{2'000};
  /// How long the exit waits for calls inside the driver, in which no thread of the runtime may be
  /// when that is destroyed. Unmapping, granting and waiting for a context take as long as the
  /// program's work lets them, so only a call that will never return is abandoned.
  static constexpr std::chrono::seconds calls_limit{10};

  /// Calls `run` when the process exits, on the exiting thread, if the object still exists. `run`
  /// must not throw, and must not wait for other threads without a limit. A forked child does not
  /// run the actions of its parent.
  class Action {
   public:
    Action(Stage stage, std::function<void()> run);
    /// Blocks: while another thread runs `run`.
    ~Action();
    Action(const Action&) = delete;
    Action& operator=(const Action&) = delete;

   private:
    struct State;
    friend class ProcessExit;
    const std::shared_ptr<State> state_;
  };

  /// Calls `run` as an `Action` does, for the rest of the process; once, however often this is
  /// called with that `created`, and in a forked child again. Cheap if it has been called. Throws:
  /// std::bad_alloc.
  static void act_once(std::atomic<int>& created, Stage stage, void (*run)());

  /// The scope of a driver call. If it is false, the call must not be made.
  class DriverCall {
   public:
    DriverCall() noexcept : counter_(enter()) {}
    ~DriverCall() {
      if (counter_ != nullptr) counter_->fetch_sub(1, std::memory_order_release);
    }
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;
    explicit operator bool() const noexcept { return counter_ != nullptr; }

   private:
    std::atomic<int>* const counter_;
  };

  static bool begun() noexcept { return begun_.load(std::memory_order_acquire); }
  /// Whether driver calls are refused from now on.
  static bool closed() noexcept { return closed_.load(std::memory_order_acquire); }
  /// The id of this process, without a system call. In a child of `fork`, the child's id.
  static int process() noexcept {
    const int known = process_.load(std::memory_order_relaxed);
    return known != 0 ? known : find_process();
  }
  /// Whether a thread other than the calling one is exiting the process.
  static bool elsewhere() noexcept;
  /// Once the process exits, pauses every thread except the exiting one until `grace` is over.
  static void hold_back() noexcept {
    if (begun()) stand_still();
  }
  /// Makes the handler run before those of all libraries loaded so far. Cheap; any thread.
  static void come_first() noexcept;
  /// Performs the handler's work, once. A second thread waits until it is done.
  static void begin() noexcept;

 private:
  /// Counts a driver call; null if it must not be made.
  static std::atomic<int>* enter() noexcept {
    std::atomic<int>& calls = calls_.own();
    calls.fetch_add(1);
    if (!closed_.load()) return &calls;
    calls.fetch_sub(1);
    hold_back();
    return nullptr;
  }
  struct List;
  static void stand_still() noexcept;
  static void run(Stage stage) noexcept;
  static int find_process() noexcept;

  static std::atomic<bool> begun_, closed_;
  static ThreadParts<std::atomic<int>> calls_;
  static std::atomic<int> process_;  // 0 until first needed.
};

/// An object that is never destroyed, since threads may use it until the process ends. It lies in
/// static storage, so making it needs no memory: a `noexcept` function may.
template <typename T>
class Immortal {
 public:
  template <typename... Args>
  explicit Immortal(Args&&... args) {
    ::new (static_cast<void*>(place_)) T(std::forward<Args>(args)...);
  }
  /// Of what `make` returns: for types that only make themselves.
  template <std::invocable Make>
    requires std::same_as<std::invoke_result_t<Make>, T>
  explicit Immortal(Make make) {
    ::new (static_cast<void*>(place_)) T(make());
  }
  T& operator*() noexcept { return *std::launder(reinterpret_cast<T*>(place_)); }

 private:
  alignas(T) std::byte place_[sizeof(T)];
};

/// The one object of the type, made at the first call. A constructor that nobody else may call is
/// private, with `Immortal<T>` as a friend.
template <typename T>
T& only() noexcept {
  static Immortal<T> one;
  return *one;
}

}  // namespace vma
