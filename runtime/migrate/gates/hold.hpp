#pragma once

#include "driver/driver.hpp"
#include "memory/contexts_in_use.hpp"
#include "migrate/gates/pinned_words.hpp"
#include "migrate/gates/stop_word.hpp"
#include "migrate/gates/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace vma {

/// Where holds stand: a stream that waits for a word, and the event behind it. It lasts.
class HoldPost {
 public:
  /// `stream` is of a context of the runtime's own, and nothing else uses it.
  HoldPost(Driver& driver, BoundStream stream, Ledger& ledger);
  ~HoldPost();
  HoldPost(const HoldPost&) = delete;
  HoldPost& operator=(const HoldPost&) = delete;

  /// Stops the stream until `open(epoch)`, and records the event behind it.
  std::uint64_t close();
  void open(std::uint64_t epoch) noexcept { word_.open(epoch); }
  EventHandle event() const noexcept { return event_; }
  /// While a slot is dark, nobody else may open; somebody may have opened before, so look.
  void set_dark(bool dark) noexcept { word_.set_dark(dark); }
  bool is_open(std::uint64_t epoch) const noexcept { return word_.is_open(epoch); }

 private:
  Driver& driver_;
  Ledger& ledger_;
  const BoundStream stream_;
  PinnedWords words_;
  StopWord word_;
  EventHandle event_{};
};

/// All contexts in use, brought to rest and kept there: a promise to let go.
///
///     closing --close()--> closed --begin_dark()--> dark --end_dark()--> closed --open()--> open
///     closing, closed --watchdog--> open
///
/// The watchdog opens it when the thread that holds stands in a driver call for too long: another
/// thread in cuCtxDestroy waits for all stopped work and meanwhile lets no unmap and no grant
/// return (driver 580). `alive` puts that off. While a slot is dark nobody opens (I2): so a call
/// that would stand is met before, by `Keepers::probe_grant`.
///
/// Work of other threads that is submitted in the microseconds between the two driver calls for one
/// context is in neither: not waited for, not held. One thread; one hold at a time.
class Hold {
 public:
  /// `patience` is how long one driver call may take before the watchdog opens.
  Hold(Driver& driver, ContextsInUse& contexts, HoldPost& post, Watchdog& watchdog,
       std::chrono::nanoseconds patience);
  ~Hold();  // Opens.

  /// `look` is called before each try, and may throw what `close` throws then. Requires: open.
  void before_tries(std::function<void()> look) { before_try_ = std::move(look); }

  /// Stops all contexts in use and waits until their earlier work has ended. On return nothing of
  /// theirs runs.
  /// Work that waits for each other across contexts may be cut in two by a hold and then never
  /// ends: so the first tries are short, and the contexts run free between them. Throws:
  /// Error{busy} if the work did not end before `deadline`, {unsupported} while a stream captures
  /// that nobody could know of (the driver ends the capture), {driver_failure}. Then the hold is
  /// open again.
  void close(TimePoint deadline);
  int tries() const noexcept { return tries_; }

  /// A slot may go dark from here on. Throws: Error{busy} if the watchdog has opened.
  void begin_dark();
  /// Each slot shows something again.
  void end_dark() noexcept;
  /// The thread has come back from its driver calls.
  void alive();
  void open() noexcept;

 private:
  enum class State { open, closing, closed, dark };
  struct Held {
    ContextHandle context{};
    EventHandle at_rest{};
  };

  void take_events();
  void try_close(TimePoint deadline);
  void stop_all();
  void arm(TimePoint deadline);
  void let_go() noexcept;
  bool await_rest(TimePoint deadline);
  bool advance(State from, State to) noexcept;

  Driver& driver_;
  ContextsInUse& contexts_;
  HoldPost& post_;
  Watchdog& watchdog_;
  const std::chrono::nanoseconds patience_;
  std::function<void()> before_try_;
  std::vector<Held> held_;
  int tries_ = 0;
  std::uint64_t epoch_ = 0;
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  std::atomic<State> state_{State::open};
};

}  // namespace vma
