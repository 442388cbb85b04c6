#pragma once

#include "base/clock.hpp"
#include "memory/keepers.hpp"

#include <chrono>

namespace vma {

/// Work that is stopped, by a hold, a gate or a suspension, as a thread sees it that switches slots
/// meanwhile.
class StoppedWork {
 public:
  virtual ~StoppedWork() = default;
  /// A slot may go dark from here on. Throws: Error{busy} if another thread has let the work go on.
  virtual void begin_dark() = 0;
  /// All slots show a chunk again.
  virtual void end_dark() noexcept = 0;
  /// The thread has returned from its driver calls.
  virtual void alive() = 0;
  /// Whether kernels run on each stream of the runtime's own. What a hold waits on occupies a
  /// hardware queue, which streams share as the driver likes.
  virtual bool runs_kernels() const noexcept { return true; }
};

/// When slots are dark behind a stop. Asks before whether the driver lets grants return: a thread
/// of the program inside cuCtxDestroy blocks them, and nobody could let the program go on. One
/// thread.
class DarkTimes {
 public:
  /// `stopped` is null if nothing runs that has to be stopped: then all calls do nothing.
  DarkTimes(StoppedWork* stopped, Keepers& keepers, Clock& clock)
      : stopped_(stopped), keepers_(keepers), clock_(clock) {}

  bool any_stopped() const noexcept { return stopped_ != nullptr; }
  bool runs_kernels() const noexcept { return any_stopped() && stopped_->runs_kernels(); }
  /// The thread has returned from calls that neither unmap nor grant.
  void alive();
  /// A grant has returned.
  void granted();
  /// Asks if it could be time to go dark soon, and the last grant is long ago. Returns when to ask
  /// again.
  TimePoint ask();
  /// Dark until `end`. Throws: as `StoppedWork::begin_dark`.
  void begin();
  void end() noexcept;
  /// Runs `body`, dark if it is not already.
  template <typename Body>
  void during(Body&& body);

 private:
  StoppedWork* const stopped_;
  Keepers& keepers_;
  Clock& clock_;
  bool dark_ = false;
  TimePoint granted_{-std::chrono::hours(1)};  // When a grant of ours last returned: not yet.
};

template <typename Body>
void DarkTimes::during(Body&& body) {
  const bool was_dark = dark_;
  begin();
  try {
    body();
  } catch (...) {
    if (!was_dark) end();
    throw;
  }
  if (!was_dark) end();
  granted();
}

}  // namespace vma
