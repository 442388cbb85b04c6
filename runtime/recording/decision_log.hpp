#pragma once

#include "placement/planning/decision.hpp"
#include "recording/block_queue.hpp"
#include "recording/decision_file.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct DecisionLogOptions {
  std::string file;                            ///< VMART_DECISIONS; empty: none is written.
  std::uint64_t file_bytes_max = 64ull << 20;  ///< Then it becomes FILE.1.
  std::size_t decisions_max = 4096;            ///< Kept in memory.
  std::size_t blocks_max = 64;  ///< Blocks of lines that wait for the disk, 64 KiB each.
  Time flush_period = std::chrono::seconds(1);  ///< The longest time before a line is written.
};

struct DecisionLogStats {
  std::uint64_t decisions = 0;
  std::uint64_t lines_lost = 0;      ///< The disk was too slow, full or removed.
  std::uint64_t write_failures = 0;  ///< The first is in the log.
};

/// What the scheduler decided: recent decisions in memory, for queries, and all of them as lines of
/// JSON in a file, for replay and for people. Any thread; only the destructor waits for a disk.
class DecisionLog {
 public:
  /// Throws: what `Executor::spawn` throws. A file that cannot be written is logged.
  DecisionLog(Executor& executor, const DecisionLogOptions& options);
  /// Logs to another sink, which outlives the log.
  DecisionLog(Executor& executor, const DecisionLogOptions& options, BlockSink& sink);
  /// Blocks: until all lines are written.
  ~DecisionLog();

  /// Assigns the decision its number, which it then has, and cuts its texts.
  std::uint64_t add(Decision& decision);
  /// Passes on lines older than `flush_period`. Call it every tick.
  void flush(Time now) noexcept;
  /// Passes on all lines, and returns true when they are written or lost; false if `deadline`
  /// passes first on the steady clock. Blocks: on the disk, until then.
  bool write_all(TimePoint deadline = TimePoint::max()) noexcept;

  /// Of those still kept, the first `decisions_max` from number `sequence` on.
  std::vector<Decision> since(std::uint64_t sequence, std::size_t decisions_max) const;
  /// The last `decisions_max` about an allocation or one chunk of it, oldest first.
  std::vector<Decision> about(std::uint64_t allocation, std::optional<std::uint32_t> slot,
                              std::size_t decisions_max) const;

  DecisionLogStats stats() const;

 private:
  void add_line(const Decision& decision) VMART_REQUIRES(mutex_);
  void hand_over() noexcept VMART_REQUIRES(mutex_);

  const std::size_t decisions_max_;
  const Time flush_period_;
  mutable Mutex mutex_;
  std::deque<Decision> kept_ VMART_GUARDED_BY(mutex_);  // Numbers rise by one.
  std::uint64_t last_ VMART_GUARDED_BY(mutex_) = 0;
  DiskBlock lines_ VMART_GUARDED_BY(mutex_);
  Time flushed_ VMART_GUARDED_BY(mutex_){0};
  std::unique_ptr<DecisionFile> file_;  // Null with an external sink, or without a file.
  std::unique_ptr<BlockQueue> queue_;   // Null: no lines are written.
};

}  // namespace vma
