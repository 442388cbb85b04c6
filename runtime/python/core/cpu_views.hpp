#pragma once

#include <atomic>
#include <memory>

namespace vma {

/// Arrays and buffers through which the CPU reaches memory of vmart without asking for it: those of
/// NumPy, memoryview and DLPack. They would point to nothing once it is freed or the runtime ends,
/// so both are refused while one exists. Any thread.
class CpuView {
 public:
  using Count = std::atomic<unsigned>;

  /// Counts as a view of the process, and as one of the memory that `count` belongs to.
  /// Throws: Error{driver_gone} once `end_all` has returned.
  explicit CpuView(std::shared_ptr<Count> count = std::make_shared<Count>());
  ~CpuView();
  CpuView(CpuView&&) noexcept = default;
  CpuView& operator=(CpuView&&) = delete;

  /// Throws: Error{pinned} if there are views of the memory, in the name of `call`.
  static void require_none(const Count& count, const char* call);
  /// From now on no view begins. Throws: Error{pinned} while one exists.
  static void end_all(const char* call);

 private:
  std::shared_ptr<Count> count_;  // Null once moved from.
};

/// Memory that the CPU faults in, and hooks in Python, exclude each other: a thread that touches
/// such memory waits for its move with the GIL held, moves may have to wait for each other, and one
/// that calls a hook waits for the GIL.
class FaultsOrHooks {
 public:
  enum class Kind { faults, hooks };
  /// One such memory or hook, as long as it exists. Throws: Error{unsupported} while one of the
  /// other kind exists.
  static std::shared_ptr<void> claim(Kind kind, const char* call);
};

}  // namespace vma
