#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "driver/driver.hpp"
#include "memory/ledger.hpp"
#include "migrate/stops/program_probe.hpp"
#include "migrate/stops/watchdog.hpp"

#include <vma/error.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>

namespace vma {

/// Whether the program's work on a GPU can be suspended.
struct SuspensionFinding {
  enum class State {
    unknown,  ///< It could not be seen yet; `why` says what was in the way.
    usable,
    off,  ///< For good, because of `why`.
  };
  State state = State::unknown;
  std::string why;
  /// The quickest of a few, of this GPU alone. Zero unless it is usable.
  std::chrono::nanoseconds suspend{0}, resume{0};
};

/// Finds out by trying whether suspension does on a GPU what `Driver::suspend` promises, since no
/// status of the kernel module can be trusted to say so. Once a GPU, before a
/// suspension is first wanted there; it takes some 0.1 s, in which the program stands for some ten
/// milliseconds.
///
/// 1. A kernel of the runtime's own counts. All work is suspended, own contexts included: the
///    kernel stands in its middle, and counts on afterwards.
/// 2. An operation of ours waits for a word in a context of the program (`ProgramProbe`). The
///    program's work is suspended, and the word written: the operation stands. Meanwhile a kernel
///    runs to its end in the runtime's own context. Afterwards the operation goes on.
///
/// Waits for no work of the program, and calls nothing in its contexts while anything is suspended.
/// Whatever fails, everything goes on before it returns.
class SuspensionCheck {
 public:
  SuspensionCheck(Driver& driver, Watchdog& watchdog, Ledger& ledger)
      : driver_(driver), watchdog_(watchdog), ledger_(ledger) {}
  SuspensionCheck(const SuspensionCheck&) = delete;
  SuspensionCheck& operator=(const SuspensionCheck&) = delete;

  /// What is known. Any thread.
  SuspensionFinding finding(DeviceId gpu) const;
  /// Whether a check could find out more than that now.
  bool is_due(DeviceId gpu) const;
  /// `finding`, after the check if none has decided it. `program` is a context of the program and
  /// `own` one of the runtime's, both on the GPU; `own` outlives this. What could not be seen is
  /// tried again, a second later at the earliest, and ever later up to eight seconds. Blocks: for
  /// milliseconds; if something is wrong for seconds. Requires: the caller stops nothing and may
  /// stop work; one thread at a time.
  SuspensionFinding check(DeviceId gpu, ContextHandle program, ContextHandle own);
  /// The check has failed before it began, or the driver has refused a suspension since: as if the
  /// check had found that, so that no move suspends until it is tried again; never, if the error is
  /// `unsupported`.
  void note_refused(DeviceId gpu, const Error& why);
  /// Moves have suspended there: what is refused next is tried again soon.
  void note_worked();

 private:
  struct Tried {
    SuspensionFinding finding;
    TimePoint again{0};
    std::chrono::nanoseconds pause{0};  // Until then, from the last try that decided nothing.
  };

  SuspensionFinding try_all(DeviceId gpu, ContextHandle program, ContextHandle own);
  bool in_program(DeviceId gpu, ContextHandle program, ContextHandle own);
  void note(DeviceId gpu, SuspensionFinding finding);

  Driver& driver_;
  Watchdog& watchdog_;
  Ledger& ledger_;
  // Of the checking thread: those that have not got through.
  std::map<DeviceId, std::unique_ptr<ProgramProbe>> probes_;
  mutable Mutex mutex_;  // Never held in a driver call.
  std::map<DeviceId, Tried> tried_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
