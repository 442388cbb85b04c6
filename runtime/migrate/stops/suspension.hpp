#pragma once

#include "driver/driver.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "migrate/stops/stopped_work.hpp"
#include "migrate/stops/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <vector>

namespace vma {

/// All work of the process, taken off the GPUs wherever it was (`Driver::suspend`), while one
/// thread switches slots.
///
///     on --close()--> off --begin_dark()--> dark --end_dark()--> off
///     off --open(), watchdog or exit--> resuming --> on
///
/// Waits for no work, and needs to know of no stream. But copies look their operands up in the
/// thread that enqueues them, so those are held back first. The watchdog lets the work go on if the
/// thread does not return from a call in time; while a slot is dark no thread does (I2). A resume
/// that fails is tried again by whoever is next: the watchdog, the exit, the thread itself. One
/// thread.
class Suspension final : public StoppedWork {
 public:
  /// `everything`: own contexts, too.
  enum class Of { program, everything };

  /// `gpus` are all that can reach the memory. `patience`: how long one driver call may take before
  /// the watchdog lets the work go on.
  Suspension(Driver& driver, Watchdog& watchdog, std::vector<DeviceId> gpus,
             std::chrono::nanoseconds patience, Of of = Of::program);
  ~Suspension() override;  // Opens.
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

  /// On return none of the work runs. Blocks: while another thread is inside a copy that may name
  /// the memory, with all going on; then as `Driver::suspend`. Throws: Error{busy} if such a copy
  /// has not ended at `deadline`, and as `Driver::suspend`; the work goes on then, and it may be
  /// closed again.
  void close(TimePoint deadline);
  /// When `close` began to suspend; zero if nothing was suspended.
  TimePoint begun() const noexcept { return begun_; }
  /// Whether the driver has refused the last `close`, and not a copy of the program.
  bool refused() const noexcept { return refused_; }

  void begin_dark() override;
  void end_dark() noexcept override;
  void alive() override;
  /// The work goes on. A resume that fails is tried again, for ten seconds, and then by the
  /// watchdog for as long as that exists. Requires: no slot is dark.
  void open() noexcept;

 private:
  enum class State { on, off, dark, resuming };

  void hold_copies_back(TimePoint deadline);
  void let_go() noexcept;
  void leave_to_watchdog() noexcept;
  static void resume_at_exit() noexcept;

  Driver& driver_;
  Watchdog& watchdog_;
  const std::vector<DeviceId> gpus_;
  const std::chrono::nanoseconds patience_;
  const Of of_;
  SuspensionHandle suspended_{};
  TimePoint begun_{0};
  bool refused_ = false;
  Watchdog::Ticket ticket_ = Watchdog::Ticket::none;
  NoCopyScopes no_copy_scopes_;
  std::atomic<State> state_{State::on};
};

}  // namespace vma
