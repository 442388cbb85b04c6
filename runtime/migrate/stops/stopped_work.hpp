#pragma once

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

}  // namespace vma
