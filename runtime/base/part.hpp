#pragma once

namespace vma {

/// What has threads or accepts work, as its owner ends it: `stop_accepting` of all parts, then
/// `finish` of all, then `release` of all, each in the order of one list. Each call is idempotent.
class Part {
 public:
  /// Refuses new work from now on, and lets what waits give up. Blocks: at most for what the part
  /// itself serves just then, which needs nothing that comes later in the list.
  virtual void stop_accepting() noexcept {}
  /// Blocks: until what was accepted has ended. Requires: all parts have stopped accepting.
  virtual void finish() noexcept {}
  /// Gives back what it holds of other parts and of the driver. Requires: all parts have finished.
  virtual void release() noexcept {}

 protected:
  Part() = default;
  Part(const Part&) = default;
  Part& operator=(const Part&) = default;
  ~Part() = default;
};

}  // namespace vma
