#pragma once

#include "migrate/gates/enqueued_stops.hpp"
#include "migrate/gates/gate_post.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <atomic>
#include <functional>

namespace vma {

/// What keeps the streams of one gate stopped, and who may open it: the gate's thread; the watchdog
/// if that thread is late; the exit of the process. Nobody but the thread opens a committed one,
/// behind which a slot may be dark (I2).
///
///     open --begin()--> closing --close()--> closed --commit()--> committed --open()--> open
///     closing, closed --open(), the watchdog--> open
///
/// One thread, which has the post to itself.
class GateLatch {
 public:
  enum class State { open, closing, closed, committed };

  /// `opened_late` as for `Gate`. Requires: all arguments outlive it.
  GateLatch(Clock& clock, GatePost& post, std::function<void()> opened_late)
      : clock_(clock), post_(post), opened_late_(std::move(opened_late)) {}

  /// Forgets what stopped when it was opened last. Requires: open.
  void renew() noexcept { any_when_opened_ = all_when_opened_ = false; }
  /// The word for which the next stops wait. Requires: open; the post is prepared.
  const StopWord& take_word() noexcept { return *(open_word_ = &post_.open_word()); }
  bool has_word() const noexcept { return open_word_ != nullptr; }
  /// These stops wait for its word: the watchdog opens it at `deadline`, or at `unstopped` if no
  /// stream has arrived until then. They outlive the next `open`.
  void begin(const EnqueuedStops& stops, TimePoint deadline, TimePoint unstopped);
  /// Instead of the times before.
  void be_back_by(TimePoint deadline, TimePoint unstopped) noexcept;
  /// All streams stand. False: it has been opened meanwhile.
  bool close() noexcept;
  /// As `Gate::commit`.
  bool commit() noexcept;
  void open() noexcept;

  State state() const noexcept { return state_; }
  /// When it was opened last; zero if it is not open yet. The watchdog notes that only afterwards.
  TimePoint opened() const noexcept { return opened_; }
  /// Whether a stream stood when the watchdog opened it, and whether all did.
  bool any_when_opened() const noexcept { return any_when_opened_; }
  bool all_when_opened() const noexcept { return all_when_opened_; }
  /// From the last arrival, at the latest, until it is open.
  NoCopyScopes& no_copy_scopes() noexcept { return no_copy_scopes_; }

 private:
  bool advance(State from, State to) noexcept;
  TimePoint open_late() noexcept;

  Clock& clock_;
  GatePost& post_;
  const std::function<void()> opened_late_;
  const EnqueuedStops* stops_ = nullptr;  // Those that wait for the word, until it is open.
  StopWord* open_word_ = nullptr;         // As before.
  NoCopyScopes no_copy_scopes_;
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  std::atomic<bool> any_when_opened_{false}, all_when_opened_{false};
  std::atomic<TimePoint> opened_{TimePoint(0)};
  std::atomic<TimePoint> unstopped_until_{TimePoint(0)};  // See `open_late`.
  std::atomic<State> state_{State::open};
};

}  // namespace vma
