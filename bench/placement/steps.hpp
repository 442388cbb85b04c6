#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace vma {

/// Readers that work together in steps, as data-parallel programs do: a step ends when the slowest
/// has read its share, and then the next begins for all. Counts what is read.
///
/// A thread a reader, each with at most one share at a time, and one thread that looks.
class Steps {
 public:
  /// Requires: `clock` outlives this.
  Steps(std::size_t readers, Clock& clock);

  /// A reader's: it has read so much more of its share.
  void add(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  /// A reader's: it is done with its share. Returns false once `end` was called.
  /// Blocks: until all others are done with theirs, or until `end`.
  bool finish_share();
  /// Nobody waits any more.
  void end();

  void begin_look();
  /// What all read in a second of the clock since `begin_look`: in the whole steps since then, or
  /// over all of the time where there was none; 0 while `has_rate` is false.
  double rate() const;
  /// Something was read since `begin_look`, and the clock went on.
  bool has_rate() const;
  /// Of all readers, ever.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Mark {
    std::uint64_t bytes = 0;
    TimePoint at{0};
  };
  Mark mark() const { return {bytes_, clock_.now()}; }

  const std::size_t readers_;
  Clock& clock_;
  std::atomic<std::uint64_t> bytes_{0};
  mutable Mutex mutex_;
  Condition changed_;
  std::size_t finished_ VMART_GUARDED_BY(mutex_) = 0;  // Shares of this step.
  std::uint64_t step_ VMART_GUARDED_BY(mutex_) = 0;
  bool ended_ VMART_GUARDED_BY(mutex_) = false;
  Mark look_ VMART_GUARDED_BY(mutex_);
  // Ends of steps since `begin_look`.
  std::optional<Mark> first_ VMART_GUARDED_BY(mutex_), last_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
