#pragma once

#include "driver/driver.hpp"
#include "memory/contexts_in_use.hpp"
#include "migrate/stops/program_calls.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "migrate/stops/stop_words.hpp"
#include "migrate/stops/stopped_work.hpp"
#include "migrate/stops/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <utility>
#include <vector>

namespace vma {

/// What holds use: a stream that waits for a word, and an event behind it. Reused by all holds.
class HoldPost {
 public:
  /// Nothing else uses `stream`, which may be of a context that is held. It outlives the post.
  HoldPost(Driver& driver, BoundStream stream, Ledger& ledger);
  ~HoldPost();  // Blocks until the stream is past the last hold. Requires: the hold is open.
  HoldPost(const HoldPost&) = delete;
  HoldPost& operator=(const HoldPost&) = delete;

  /// Stops the stream until `open(epoch)`, and records the event behind it.
  void close(std::uint64_t epoch);
  void open(std::uint64_t epoch) noexcept { word_.open(epoch); }
  EventHandle event() const noexcept { return event_; }
  ContextHandle context() const noexcept { return stream_.context; }
  /// While a slot is dark, no other thread may open; one may have opened before, so check
  /// `is_open`.
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

/// What its owner enqueues just before a hold takes effect, so that it runs under the hold.
class BeforeHold {
 public:
  virtual ~BeforeHold() = default;
  /// What is enqueued now, behind these events, runs once all earlier work has ended. Called once
  /// in each try, which ends at `deadline`. Must be quick: work that other threads submit meanwhile
  /// is neither waited for nor held. Throws: then the hold does not close.
  virtual void enqueue(std::span<const EventHandle> at_rest, TimePoint deadline) = 0;
  /// The try has failed, and the hold is open: waits until what was enqueued has ended, so that the
  /// next try can begin. Throws: Error{busy} at `deadline`.
  virtual void recall(TimePoint deadline) = 0;
};

/// All contexts in use, quiesced and kept so; releases them at the end.
///
///     closing --close()--> closed --begin_dark()--> dark --end_dark()--> closed --open()--> open
///     closing, closed --watchdog--> open
///
/// The watchdog opens the hold when the holding thread blocks too long in a driver call: another
/// thread in cuCtxDestroy waits for all stopped work and meanwhile blocks every unmap and grant
/// (driver 580). `alive` postpones that. While a slot is dark no thread opens (I2): so
/// `Keepers::probe_grant` detects a call that would block beforehand.
///
/// Work that other threads submit between the two driver calls for one context is covered by
/// neither: not waited for, not held. These are microseconds, and longer if something is enqueued
/// between them. A program that guards its calls enqueues nothing then (`NoEnqueues`). One thread;
/// one hold at a time.
/// One owner: the contexts of one stop, and each thing that ends it.
class Hold final : public StoppedWork {
 public:
  /// `patience` is how long one driver call may take before the watchdog opens.
  Hold(Driver& driver, ContextsInUse& contexts, HoldPost& post, Watchdog& watchdog,
       std::chrono::nanoseconds patience);
  ~Hold() override;  // Opens.

  /// `look` is called before each try, while no capture can begin, and may throw what `close`
  /// throws. Requires: open.
  void before_tries(std::function<void()> look) { before_try_ = std::move(look); }
  /// Outlives the hold; null for nothing. Requires: open.
  void enqueues(BeforeHold* before) noexcept { before_ = before; }

  /// Waits until the earlier work in all contexts in use has ended, with nothing stopped. What is
  /// enqueued before a hold cannot be called back, so little should have to end when it is. Keeps
  /// the program from enqueuing for some microseconds. Throws: as `close`.
  void await_work(TimePoint deadline);
  /// Stops all contexts in use and waits until their earlier work has ended. On return none of
  /// their work runs. A hold may cut in two work that waits for each other across contexts, which
  /// then never ends: so the first tries are short, and the contexts run freely between them.
  /// If something is enqueued before, each further try first drains.
  /// Throws: Error{busy} if the work did not end before `deadline`, {unsupported} while a stream
  /// captures that the runtime cannot know of (the driver ends the capture), {driver_failure}. Then
  /// the hold is open again.
  void close(TimePoint deadline);
  int tries() const noexcept { return tries_; }
  /// When the first try began.
  TimePoint begun() const noexcept { return begun_; }

  void begin_dark() override;
  void end_dark() noexcept override;
  void alive() override;
  bool runs_kernels() const noexcept override { return false; }
  void open() noexcept;

 private:
  enum class State { open, closing, closed, dark };
  struct Held {
    ContextHandle context{};
    EventHandle at_rest{};
    bool recorded = false;  // In this try; otherwise it is broken, and runs no more work.
  };

  std::unique_lock<std::shared_timed_mutex> look_for_captures(TimePoint deadline) const;
  void await_no_enqueues(TimePoint deadline);
  void take_events();
  void try_close(TimePoint deadline);
  void stop_all(TimePoint deadline);
  void record(Held& held);
  bool record_all(TimePoint deadline);
  void hold(const Held& held);
  void enqueue_before(TimePoint deadline);
  bool holds_its_post() const;
  void arm(TimePoint deadline);
  void let_go() noexcept;
  bool await_rest(TimePoint deadline);
  void await_copies(TimePoint deadline);
  void hold_copies_back(TimePoint deadline);
  bool advance(State from, State to) noexcept;
  void open_post() noexcept;

  Driver& driver_;
  ContextsInUse& contexts_;
  HoldPost& post_;
  Watchdog& watchdog_;
  const std::chrono::nanoseconds patience_;
  std::function<void()> before_try_;
  BeforeHold* before_ = nullptr;
  std::vector<Held> held_;
  int tries_ = 0;
  TimePoint begun_{0};
  std::uint64_t epoch_ = 0;
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  NoEnqueues no_enqueues_;       // While the contexts are stopped or recorded, one after the other.
  NoCopyScopes no_copy_scopes_;  // While closed.
  std::atomic<State> state_{State::open};
};

}  // namespace vma
