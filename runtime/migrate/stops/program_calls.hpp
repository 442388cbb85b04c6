#pragma once

#include "base/process_exit.hpp"
#include "driver/captures_begun.hpp"
#include "memory/contexts_in_use.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace vma {

/// How a program that guards its calls of the driver, as `vmart run` makes it do, keeps its threads
/// from enqueuing. Any thread.
struct ProgramEnqueues {
  /// No thread enqueues from its return on, and none is inside such a call. Returns null then;
  /// otherwise why that cannot be, within the limit, and nothing has changed.
  const char* (*begin)(std::int64_t limit_ns, void* data) = nullptr;
  void (*end)(void* data) = nullptr;
  void* data = nullptr;

  /// Null if the program has none. What is set once lives as long as the process.
  static std::atomic<const ProgramEnqueues*>& of_process() noexcept {
    static constinit std::atomic<const ProgramEnqueues*> only{nullptr};
    return only;
  }
};

/// When holds stopped: meanwhile, and until a GPU has seen the end, a stream is not ready although
/// it has no work. Any thread; of the process.
class ClosedHolds {
 public:
  static ClosedHolds& of_process() noexcept {
    static constinit ClosedHolds only;
    return only;
  }

  void begin() noexcept { standing_.fetch_add(1); }
  void end() noexcept {
    last_end_.store(Time::clock::now());
    standing_.fetch_sub(1);
  }
  /// How long ago the last one ended: zero while one stands; the maximum if there was none, and
  /// once the process exits, which opens all.
  std::chrono::nanoseconds since_last() const noexcept {
    if (ProcessExit::begun()) return std::chrono::nanoseconds::max();
    if (standing_.load() > 0) return std::chrono::nanoseconds::zero();
    const Time end = last_end_.load();
    return end == Time() ? std::chrono::nanoseconds::max() : Time::clock::now() - end;
  }

 private:
  using Time = std::chrono::steady_clock::time_point;  // Programs do not wait in virtual time.

  std::atomic<int> standing_ = 0;
  std::atomic<Time> last_end_ = Time();
};

/// See `ContextsInUse::note_created`.
inline void note_program_context(ContextHandle context, bool created) {
  created ? ContextsInUse::note_created(context) : ContextsInUse::note_destroyed(context);
}

/// Between `begin` and `end` no thread of the program enqueues, as far as the program lets itself
/// be told. Requires: the thread that begins is in no such call.
class NoEnqueues {
 public:
  NoEnqueues() = default;
  ~NoEnqueues() { end(); }
  NoEnqueues(const NoEnqueues&) = delete;
  NoEnqueues& operator=(const NoEnqueues&) = delete;

  /// Null: none enqueues, or nothing is known of that. Otherwise why that cannot be; nothing has
  /// changed then. Blocks: for the limit at most, while a thread is inside such a call and all
  /// others wait.
  const char* begin(std::chrono::nanoseconds limit) {
    const ProgramEnqueues* const calls = ProgramEnqueues::of_process().load();
    if (calls == nullptr) return nullptr;
    if (const char* const why = calls->begin(limit.count(), calls->data)) return why;
    holds_ = true;
    calls_ = calls;
    return nullptr;
  }
  /// From any thread.
  void end() noexcept {
    const ProgramEnqueues* const calls = calls_.exchange(nullptr);
    if (calls != nullptr) calls->end(calls->data);
  }
  /// The same by the thread that began. False: another thread has ended it before.
  bool end_in_time() noexcept {
    const bool ends = in_time();
    holds_ = false;
    end();
    return ends;
  }
  /// Whether no other thread has ended it. By the thread that began.
  bool in_time() const noexcept { return !holds_ || calls_ != nullptr; }

 private:
  std::atomic<const ProgramEnqueues*> calls_{nullptr};
  bool holds_ = false;
};

/// Between the program's calls with which captures begin, and gates, which look for captures and
/// enqueue stops: a stop in a legacy stream would end the capture of a blocking stream that has
/// begun since it was looked for. Any thread.
class CaptureLock {
 public:
  using Lock = std::unique_lock<std::shared_timed_mutex>;

  /// The program calls `enter` before each capture from now on. `any_yet`: one may have begun
  /// before.
  static void expect(bool any_yet) noexcept { CapturesBegun::of_process().will_be_told(any_yet); }
  /// A capture begins, or a stream may join one, until the calling thread calls `leave`. Blocks:
  /// while stops are enqueued, and before the first capture for `CapturesBegun::begins`.
  static void enter() {
    CapturesBegun::of_process().begins();
    mutex().lock_shared();
  }
  static void leave() noexcept { mutex().unlock_shared(); }
  /// Keeps captures from beginning. A call of the program may take long, and may wait for work that
  /// a gate holds back, so this does not wait for it: check `owns_lock`. Blocks: for 2 ms at most.
  static Lock hold_back() {
    constexpr auto wait_max = std::chrono::milliseconds(2);
    return Lock(mutex(), wait_max);
  }

 private:
  static std::shared_timed_mutex& mutex() noexcept {
    static Immortal<std::shared_timed_mutex> only;
    return *only;
  }
};

}  // namespace vma
