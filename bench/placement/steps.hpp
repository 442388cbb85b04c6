#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace vma {

/// Readers that work in lockstep, like data-parallel programs: a step ends when the slowest reader
/// has read its share, and then all begin the next one. Counts the bytes read.
///
/// One thread per reader, each with at most one share at a time, and one thread that looks.
class Steps {
 public:
  /// Requires: `clock` outlives this object.
  Steps(std::size_t readers, Clock& clock);

  /// Called by a reader that has read this many more bytes of its share.
  void add(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  /// Called by a reader that has read its share. Returns false once `end` was called. Blocks: until
  /// all other readers have read theirs, or until `end`.
  bool finish_share();
  /// Ends all waits, now and in the future.
  void end();

  void begin_look();
  /// Bytes that all readers read per second of the clock since `begin_look`: over the whole steps
  /// since then, or over all of the time if there was none; 0 while `has_rate` is false.
  double rate() const;
  /// Whether something was read since `begin_look` and the clock has advanced.
  bool has_rate() const;
  /// Total of all readers.
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
  std::size_t finished_ VMART_GUARDED_BY(mutex_) = 0;  // Number of shares finished in this step.
  std::uint64_t step_ VMART_GUARDED_BY(mutex_) = 0;
  bool ended_ VMART_GUARDED_BY(mutex_) = false;
  Mark look_ VMART_GUARDED_BY(mutex_);
  // The first and last end of a step since `begin_look`.
  std::optional<Mark> first_ VMART_GUARDED_BY(mutex_), last_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
