#pragma once

#include "placement/planning/decision.hpp"
#include "recording/block_queue.hpp"
#include "recording/output_file.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// One line of JSON, without a newline; docs/reference/recordings.md describes the keys. Invalid
/// UTF-8 is replaced by question marks, numbers that are not finite by null.
std::string to_json_line(const Decision& decision);
/// Throws: Error{invalid_argument} that describes the problem.
Decision parse_decision(std::string_view line);

/// Appends lines to a file. A full file is renamed to FILE.1, replacing any older one. A file that
/// was moved or removed is created again. Lines that cannot be written are counted, and reported
/// once in the log.
class DecisionFile : public BlockSink {
 public:
  /// Does not open the file yet.
  DecisionFile(std::string path, std::uint64_t bytes_max);

  void write(const DiskBlock& block, const Loss& lost_before) noexcept override;
  void finish(const Loss& lost_before) noexcept override;

  // Any thread.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }
  std::uint64_t lines_lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  bool ready(std::size_t bytes) noexcept;
  bool failed(int error) noexcept;

  const std::string path_, full_path_;
  const std::uint64_t bytes_max_;
  OutputFile file_;
  std::atomic<std::uint64_t> failures_{0}, lost_{0};
};

struct DecisionLogOptions {
  std::string file;                            ///< VMART_DECISIONS; empty: no file is written.
  std::uint64_t file_bytes_max = 64ull << 20;  ///< A larger file is renamed to FILE.1.
  std::size_t decisions_max = 4096;            ///< Kept in memory.
  std::size_t blocks_max = 64;  ///< Blocks of lines waiting for the disk, 64 KiB each.
  Time flush_period = std::chrono::seconds(1);  ///< Maximum delay before a line is written.
};

struct DecisionLogStats {
  std::uint64_t decisions = 0;
  std::uint64_t lines_lost = 0;      ///< The disk was too slow, full or removed.
  std::uint64_t write_failures = 0;  ///< The log contains the first one.
};

/// What the scheduler decided: recent decisions in memory, for queries, and all of them as lines of
/// JSON in a file, for replays and for people. Any thread; only the destructor waits for a disk.
class DecisionLog {
 public:
  /// Throws: like `Executor::spawn`. If the file cannot be written, that is logged.
  DecisionLog(Executor& executor, const DecisionLogOptions& options);
  /// Writes to another sink, which must outlive the log.
  DecisionLog(Executor& executor, const DecisionLogOptions& options, BlockSink& sink);
  /// Blocks: until all lines are written.
  ~DecisionLog();

  /// Assigns the decision its number, and cuts its texts. Returns the number. In memory, repeated
  /// refusals of a chunk for one reason are one entry, `Decision::times`.
  std::uint64_t add(Decision& decision);
  /// Passes on lines older than `flush_period`. Called every tick.
  void flush(Time now) noexcept;
  /// Passes on all lines. Returns true once they are written or lost, or false if `deadline` passes
  /// first on the steady clock. Blocks: on the disk, until then.
  bool write_all(TimePoint deadline = TimePoint::max()) noexcept;

  /// The first `decisions_max` of the decisions still in memory with number `sequence` or higher.
  std::vector<Decision> since(std::uint64_t sequence, std::size_t decisions_max) const;
  /// The last `decisions_max` about an allocation or one chunk of it, oldest first.
  std::vector<Decision> about(std::uint64_t allocation, std::optional<std::uint32_t> slot,
                              std::size_t decisions_max) const;

  DecisionLogStats stats() const;

 private:
  void keep(const Decision& decision) VMART_REQUIRES(mutex_);
  void add_line(const Decision& decision) VMART_REQUIRES(mutex_);
  void hand_over() noexcept VMART_REQUIRES(mutex_);

  const std::size_t decisions_max_;
  const Time flush_period_;
  mutable Mutex mutex_;
  std::deque<Decision> kept_ VMART_GUARDED_BY(mutex_);  // In the order of their numbers.
  RefusalRuns refusals_ VMART_GUARDED_BY(mutex_){RefusalRuns::Of::chunk};
  std::uint64_t last_ VMART_GUARDED_BY(mutex_) = 0;
  DiskBlock lines_ VMART_GUARDED_BY(mutex_);
  Time flushed_ VMART_GUARDED_BY(mutex_){0};
  std::unique_ptr<DecisionFile> file_;  // Null with an external sink or without a file.
  std::unique_ptr<BlockQueue> queue_;   // Null if no lines are written.
};

}  // namespace vma
