#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "migrate/gates/enqueued_stops.hpp"
#include "migrate/gates/gate_latch.hpp"
#include "migrate/gates/gate_plan.hpp"
#include "migrate/gates/gate_post.hpp"
#include "migrate/stops/stopped_work.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <optional>

namespace vma {

/// The turn for slow calls, as one stop uses it: held while streams are stopped, but not while it
/// waits for long work. One thread.
class SlowCallTurn {
 public:
  explicit SlowCallTurn(Mutex& turn) : turn_(turn) {}
  ~SlowCallTurn() { let_go(); }
  SlowCallTurn(const SlowCallTurn&) = delete;
  SlowCallTurn& operator=(const SlowCallTurn&) = delete;

  /// Blocks: while another thread has it.
  void take() VMART_NO_THREAD_ANALYSIS;
  bool try_take() VMART_NO_THREAD_ANALYSIS;
  void let_go() noexcept VMART_NO_THREAD_ANALYSIS;
  bool held() const noexcept { return held_; }

 private:
  Mutex& turn_;
  bool held_ = false;
};

struct GateLimits {
  /// From the first stream's arrival to the last, at most.
  std::chrono::nanoseconds arrival_limit = std::chrono::milliseconds(5);
  /// The arrival limit if the backlogs predict at most half of it: anything later is held up by a
  /// stream that is already stopped, such as a collective that the gate has cut in two.
  std::chrono::nanoseconds arrival_limit_min = std::chrono::milliseconds(5);
  /// From the last enqueueing to the first arrival.
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(1);
  /// For all streams to answer when their backlogs are measured.
  std::chrono::nanoseconds look_limit = std::chrono::seconds(1);
  /// The wait beyond the predicted first arrival: short if other moves wait for this gate
  /// meanwhile.
  std::chrono::nanoseconds overdue_limit = std::chrono::nanoseconds::max();
  /// From closed to committed.
  std::chrono::nanoseconds settle_limit = std::chrono::milliseconds(5);
  /// Once it returns true, all waiting ends: another thread wants a stream of the plan back, or the
  /// move is no longer wanted. Called at every poll; it neither blocks nor throws. Empty: never.
  std::function<bool()> given_up;
  /// Keeps other threads from slow driver calls while streams are stopped. Released if no stream is
  /// stopped for a while, and taken again when the first is. Null: none.
  SlowCallTurn* turn = nullptr;
  /// A gate with a larger predicted time from the first arrival to the last is not tried.
  std::chrono::nanoseconds skew_limit = std::chrono::nanoseconds::max();
  /// All streams are told to stop when their backlogs say, none only once another has arrived.
  /// While that one stands, the program may be blocked in a launch for which its context has no
  /// room, and this thread would be blocked behind it.
  bool tells_ahead = false;
};

struct GateTimes {
  TimePoint first_arrival{0};
  TimePoint last_arrival{0};
  TimePoint opened{0};
  std::chrono::nanoseconds skew() const noexcept { return last_arrival - first_arrival; }
  std::chrono::nanoseconds stall() const noexcept { return opened - last_arrival; }
};

/// All streams of a plan, stopped; releases them at the end.
///
///     send -> await_first ... -> close -> commit -> open     (or open at any time: `GateLatch`)
///
/// Each stream gets one operation that writes "arrived" after its earlier work, and then waits: a
/// kernel launch, or a batch if no graphs are launched (`Driver::stop` says why). The watchdog
/// opens a gate whose thread blocks too long in a driver call, but never a committed one, behind
/// which a slot may be dark (I2); process exit does the same. One thread, which has the post to
/// itself.
class Gate final : public StoppedWork {
 public:
  using State = GateLatch::State;

  /// Open. When the watchdog opens the gate, it calls `opened_late` on its thread, to release other
  /// stopped work that may block a call of this thread. Requires: all arguments outlive the gate.
  Gate(
      Driver& driver, GatePost& post, std::function<void()> opened_late = [] {});
  ~Gate() override;  // Opens.
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Measures by a write the backlogs of those streams whose depth is not recently known. Stops
  /// nothing. Returns a refusal and throws as `close`.
  std::optional<StopRefusal> look(const GatePlan& plan, const GateLimits& limits);
  /// Tells the streams to stop: those with the deepest backlog now, the others while `await_first`
  /// and `close` wait. Requires: `plan` outlives the gate's closing. Returns a refusal and throws
  /// as `close`.
  std::optional<StopRefusal> send(const GatePlan& plan, const GateLimits& limits);
  /// Waits until a stream arrives, at most until `until`. True: it is time to `close`, because one
  /// has arrived, a limit has passed or the gate was given up.
  bool await_first(TimePoint until);
  /// None: all streams of the plan are stopped, and none of their earlier work runs. A refusal: the
  /// gate is open and nothing is stopped. Throws: what the driver throws; then it is open, too.
  /// Requires: sent.
  std::optional<StopRefusal> close();
  /// `send` and `close`. May be called again once it is open.
  std::optional<StopRefusal> try_close(const GatePlan& plan, const GateLimits& limits);
  /// Whether all streams of the plan have arrived since it was sent, even if it is open again.
  bool all_arrived() const noexcept {
    return latch_.all_when_opened() || (stops_ && stops_->arrivals().all());
  }
  /// From here on a slot may be dark, and only `open` opens. False: it has been opened meanwhile.
  /// Requires: it is closed.
  bool commit() noexcept { return latch_.commit(); }
  /// `commit`, or Error{busy}.
  void begin_dark() override;
  void end_dark() noexcept override {}  // Only `open` ends it.
  void alive() override {}              // A closed gate has all of its time.
  /// All work continues, whatever the state; streams that have yet to arrive will not stop.
  /// Requires: no slot is dark.
  void open() noexcept;

  State state() const noexcept { return latch_.state(); }
  /// Times of the last closing; `opened` once it is open again.
  GateTimes times() const noexcept {
    return {arrived_.first_arrival, arrived_.last_arrival, latch_.opened()};
  }

 private:
  template <typename Body>
  std::optional<StopRefusal> guarded(std::optional<EnqueuedStops>& stops, Body&& body);
  std::optional<StopRefusal> look_at_backlogs(const GatePlan& plan, EnqueuedStops& probes);
  std::optional<StopRefusal> begin(const GatePlan& plan);
  std::optional<StopRefusal> enqueue_next();
  std::optional<StopRefusal> await_all();
  std::optional<StopRefusal> hold_copies_back(TimePoint deadline);
  void note_first();
  void note_opened_early();
  StopRefusal missing();
  StopRefusal opened_early() const;
  bool take_turn(TimePoint end);
  bool try_turn();
  void let_turn_go() noexcept;
  bool has_turn() const noexcept;
  bool unwanted() const;
  TimePoint arrivals_due() const { return later(begun_, stops_->deepest()); }
  TimePoint wait_end() const;
  void keep_up() noexcept;
  void note_stopped(bool stopped) noexcept;
  void be_back_by(TimePoint deadline) noexcept;
  void be_back_by(TimePoint deadline, TimePoint unstopped) noexcept;
  std::chrono::nanoseconds patience_unstopped() const noexcept;

  Driver& driver_;
  Clock& clock_;
  GatePost& post_;
  GateLimits limits_;                          // Of the last closing.
  std::optional<EnqueuedStops> stops_;         // As before.
  std::chrono::nanoseconds arrival_limit_{0};  // The allowed limit, adjusted to the backlogs.
  TimePoint begun_{0};                         // When enqueuing began, from which limits count.
  GateTimes arrived_;                          // In the last closing; `latch_` knows its end.
  std::optional<StopRefusal> refused_;         // While it waited; for `close` to return.
  std::exception_ptr failed_;                  // As before, to throw.
  bool noted_ = false;                         // Decorators were told that work is stopped.
  GateLatch latch_;
};

}  // namespace vma
