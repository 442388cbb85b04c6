#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "migrate/gates/gate_plan.hpp"
#include "migrate/gates/gate_post.hpp"
#include "migrate/gates/stop_stats.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vma {

class Arrivals;

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
  /// The wait beyond the predicted first arrival: short if other moves wait for this gate
  /// meanwhile.
  std::chrono::nanoseconds overdue_limit = std::chrono::nanoseconds::max();
  /// From closed to committed.
  std::chrono::nanoseconds settle_limit = std::chrono::milliseconds(5);
  /// Once it returns true, all waiting ends: another thread wants a stream of the plan back, or the
  /// move is no longer wanted. Called at every poll; it neither blocks nor throws. Empty: never.
  std::function<bool()> given_up;
  /// Keeps other threads from slow driver calls while streams are stopped. Released if no stream is
  /// stopped after `turn_limit`, and taken again when the first is. Null: none.
  SlowCallTurn* turn = nullptr;
  std::chrono::nanoseconds turn_limit = std::chrono::milliseconds(2);
  /// A gate with a larger predicted time from the first arrival to the last is not tried.
  std::chrono::nanoseconds skew_limit = std::chrono::nanoseconds::max();
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
///     open --try_close()--> closing --all arrived--> closed --commit()--> committed
///     committed --open()--> open
///     closing, closed --open(), the watchdog--> open
///
/// Each stream gets one operation that writes "arrived" after its earlier work, and then waits: a
/// kernel launch, or a batch if no graphs are launched (`Driver::stop` says why). The watchdog
/// opens a gate whose thread blocks too long in a driver call, but never a committed one, behind
/// which a slot may be dark (I2); process exit does the same. One thread, which has the post to
/// itself.
class Gate {
 public:
  enum class State { open, closing, closed, committed };
  struct Refusal {
    StopRefusal why = StopRefusal::none;
    std::string detail;
  };

  /// Open. When the watchdog opens the gate, it calls `opened_late` on its thread, to release other
  /// stopped work that may block a call of this thread. Requires: all arguments outlive the gate.
  Gate(
      Driver& driver, GatePost& post, std::function<void()> opened_late = [] {});
  ~Gate();  // Opens.
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Measures by a write the backlogs of those streams whose depth is not recently known. Stops
  /// nothing. Returns a refusal and throws as `try_close`.
  std::optional<Refusal> look(const GatePlan& plan, const GateLimits& limits);
  /// None: all streams of the plan are stopped, and none of their earlier work runs. A refusal: the
  /// gate is open and nothing is stopped. Throws: what the driver throws; then it is open, too. May
  /// be called again once it is open.
  std::optional<Refusal> try_close(const GatePlan& plan, const GateLimits& limits);
  /// From here on a slot may be dark, and only `open` opens. False: it has been opened meanwhile.
  /// Requires: `try_close` has closed it.
  bool commit() noexcept;
  /// All work continues, whatever the state. Requires: no slot is dark.
  void open() noexcept;

  State state() const noexcept { return state_; }
  /// Times of the last closing; `opened` once it is open again.
  GateTimes times() const noexcept { return {first_arrival_, last_arrival_, opened_}; }

 private:
  struct Attempt;
  enum class Kind { probe, stop };

  std::optional<Refusal> guarded(Attempt& attempt,
                                 std::optional<Refusal> (Gate::*body)(Attempt& attempt));
  std::optional<Refusal> close(Attempt& attempt);
  std::optional<Refusal> look_at_backlogs(Attempt& attempt);
  std::optional<Refusal> stop_all(Attempt& attempt, Arrivals& arrivals);
  void set_chains(Attempt& attempt);
  std::optional<Refusal> await_all(Attempt& attempt, Arrivals& arrivals);
  void await_first(Attempt& attempt, Arrivals& arrivals, TimePoint end);
  bool take_turn(Attempt& attempt, Arrivals& arrivals, TimePoint end);
  bool try_turn(const Attempt& attempt);
  void let_turn_go(const Attempt& attempt) noexcept;
  void note_stopped(bool stopped) noexcept;
  void learn(Attempt& attempt, const Arrivals& arrivals);
  Refusal not_arrived(const Attempt& attempt, const Arrivals& arrivals, std::string_view how);
  std::string most_varying(const Attempt& attempt);
  std::optional<Refusal> enqueue(Attempt& attempt, Arrivals& arrivals,
                                 std::span<const StopStart> starts, Kind kind);
  void enqueue_one(Attempt& attempt, Arrivals& arrivals, std::size_t index, Kind kind);
  std::optional<Refusal> find_capture(const Attempt& attempt, std::span<const StopStart> starts,
                                      Arrivals& arrivals);
  bool may_be_captured(Attempt& attempt) noexcept;
  void excuse_broken(Attempt& attempt, Arrivals& arrivals);
  bool captures(const GateStop& stop);
  void begin(TimePoint deadline);
  void be_back_by(TimePoint deadline) noexcept;
  bool advance(State from, State to) noexcept;

  Driver& driver_;
  Clock& clock_;
  GatePost& post_;
  const std::function<void()> opened_late_;
  std::uint64_t epoch_ = 0;  // Zero before the first closing.
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  bool noted_ = false;  // Decorators were told that work is stopped.
  TimePoint first_arrival_{0};
  TimePoint last_arrival_{0};
  std::atomic<TimePoint> opened_{TimePoint(0)};
  std::atomic<State> state_{State::open};
};

}  // namespace vma
