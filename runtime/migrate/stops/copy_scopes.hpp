#pragma once

#include "base/clock.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace vma {

/// The open `CopyScope`s of the process, and whether new ones wait. Any thread.
///
/// The driver looks the operands of copies and fills up when they are enqueued, and finds nothing
/// at a dark slot. So a stop that leads to a switch lets no scope begin, and no slot goes dark
/// before the open ones have ended.
class CopyScopes {
 public:
  static CopyScopes& process() noexcept;

  /// Scopes of one thread nest. Blocks: for the first of a thread, while a `NoCopyScopes` holds
  /// scopes back.
  void enter() noexcept;
  void leave() noexcept;
  /// Whether the calling thread has one. Async-signal-safe.
  static bool here() noexcept { return depth_ > 0; }
  /// Whether the last stop found one open: the next stop then waits for them before it stops
  /// anything.
  bool were_in_the_way() const noexcept { return in_the_way_; }
  /// The process exits, and a slot stays dark: what is held back now is not let go.
  void stay_held_back() noexcept { stay_ = true; }

  /// The program's own copies have scopes from now on. `look` finds those that it has come by
  /// since.
  void guarded_by(void (*look)() noexcept) noexcept { look_ = look; }
  /// Before a move: finds them. Requires: the caller holds no lock or claim, and answers no fault,
  /// that a constructor of a library may wait for. Blocks: while another thread loads libraries.
  void look() const noexcept {
    if (auto* const found = look_.load()) found();
  }
  /// Some copies of the program cannot have one. The first reason is kept.
  void note_unguarded(std::string_view why) noexcept;
  /// Another thread may copy while a move stops work: throws Error{unsupported} if, as far as is
  /// known, such a copy may have no scope.
  void require_guards(const char* call) const;

 private:
  friend class NoCopyScopes;

  bool may_go_on() const noexcept;
  static void prepare_for_exit();
  void let_go_at_exit() noexcept;

  static thread_local volatile int depth_;
  std::atomic<std::int64_t> open_{0};        // Threads that have one.
  std::atomic<std::uint32_t> held_back_{0};  // How many stops hold scopes back.
  std::atomic<std::uint32_t> let_go_{0};     // How often one has ended: what threads wait for.
  std::atomic<std::int32_t> holder_{0};      // The process of the last one.
  std::atomic<bool> in_the_way_{false};
  std::atomic<bool> exiting_{false};  // Nothing is held back any more.
  std::atomic<bool> stay_{false};
  std::atomic<void (*)() noexcept> look_{nullptr};
  enum class Guarded { all, telling, some };
  std::atomic<Guarded> guarded_{Guarded::all};
  char why_[256] = {};  // Constant once it is `some`.
};

/// What one stop holds back: no `CopyScope` is open from `begin` to `end`.
class NoCopyScopes {
 public:
  NoCopyScopes() = default;
  ~NoCopyScopes() { end(); }
  NoCopyScopes(const NoCopyScopes&) = delete;
  NoCopyScopes& operator=(const NoCopyScopes&) = delete;

  /// How long scopes may take to end while work is stopped, and while none is: then all copies of
  /// the process wait for so long at most.
  static constexpr std::chrono::microseconds stopped_limit{200};
  static constexpr std::chrono::milliseconds unstopped_limit{50};

  /// New scopes wait, and the open ones end. False: one is still open at `deadline`, perhaps in a
  /// call that waits for stopped work; then nothing is held back. Does nothing if it has begun.
  bool begin(Clock& clock, TimePoint deadline);
  bool begun() const noexcept { return begun_; }
  /// Any thread; idempotent. Requires: no slot is dark.
  void end() noexcept;

 private:
  std::atomic<bool> begun_{false};
};

}  // namespace vma
