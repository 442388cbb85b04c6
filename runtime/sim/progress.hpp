#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "sim/race_detector.hpp"
#include "sim/sim_clock.hpp"

#include <memory>
#include <string>
#include <vector>

namespace vma {

/// A stream, as those see it that wait for its work. Requires, for both: the lock of Progress.
class Waiter {
 public:
  virtual void wake() noexcept = 0;
  virtual bool head_is_stuck(int depth) = 0;

 protected:
  ~Waiter() = default;
};

/// The end of a piece of work, or of several. Guarded by the lock of Progress.
struct Completion {
  bool done = false;
  TimePoint at{0};           ///< When it ended, once done.
  Waiter* stream = nullptr;  ///< The stream that will do the work; null once done.
  std::vector<std::shared_ptr<Completion>> all_of;
  VectorClock knows;  ///< What has happened by then. Used only by the race detector.
};
using CompletionPtr = std::shared_ptr<Completion>;

/// The lock of all streams, contexts and events of a machine, and the waiting for them.
class Progress {
 public:
  /// `races` is null if races are not detected.
  Progress(SimClock& clock, RaceDetector* races) : clock_(clock), races_(races) {}

  Mutex mutex;
  /// Wakes host threads; `announce` also wakes streams that wait for other streams.
  Condition changed;

  void announce() VMART_REQUIRES(mutex);
  void add_sleeper(Waiter* stream) VMART_REQUIRES(mutex);
  void remove_sleeper(Waiter* stream) VMART_REQUIRES(mutex);
  int sleepers() const VMART_REQUIRES(mutex) { return static_cast<int>(sleepers_.size()); }

  /// The fatal error of the process; 0 if there is none.
  int fault() const VMART_REQUIRES(mutex) { return fault_; }
  void set_fault(int native, const std::string& detail) VMART_REQUIRES(mutex);
  /// Throws the fault, if there is one, naming the driver call `call`.
  void check_fault(const char* call) const VMART_REQUIRES(mutex);

  static bool is_done(Completion& completion);
  static CompletionPtr joined(std::vector<CompletionPtr> parts);
  /// Whether the work cannot continue until something outside it happens: it waits for a word, a
  /// queue, or other stuck work.
  static bool is_stuck(Completion& completion, int depth = 0);

  /// Blocks until done, a fault, or `deadline`; moves the clock to the end. False: the deadline
  /// passed.
  bool await(MutexLock& lock, const CompletionPtr& completion, TimePoint deadline)
      VMART_REQUIRES(mutex);
  /// Whether it has ended by now. Waits in real time until unblocked work has moved its bytes, so
  /// that a slow host computer does not look like a slow machine.
  bool query(MutexLock& lock, const CompletionPtr& completion) VMART_REQUIRES(mutex);

  SimClock& clock() noexcept { return clock_; }
  RaceDetector* races() const noexcept { return races_; }

 private:
  void learn(const CompletionPtr& completion);
  template <typename Ready>
  bool changes_by(MutexLock& lock, TimePoint deadline, Ready ready) VMART_REQUIRES(mutex);

  SimClock& clock_;
  RaceDetector* const races_;
  std::vector<Waiter*> sleepers_ VMART_GUARDED_BY(mutex);
  int fault_ VMART_GUARDED_BY(mutex) = 0;
  std::string fault_detail_ VMART_GUARDED_BY(mutex);
};

}  // namespace vma
