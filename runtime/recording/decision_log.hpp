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
  std::string file;                             ///< VMART_DECISIONS; empty: none is written.
  std::uint64_t file_bytes_max = 64ull << 20;   ///< Then it becomes FILE.1.
  std::size_t decisions_max = 4096;             ///< That are kept in memory.
  std::size_t blocks_max = 64;                  ///< Of lines that wait for the disk, 64 KiB each.
  Time flush_period = std::chrono::seconds(1);  ///< A line is not kept longer.
};

struct DecisionLogStats {
  std::uint64_t decisions = 0;
  std::uint64_t lines_lost = 0;      ///< The disk was too slow, full or gone.
  std::uint64_t write_failures = 0;  ///< The first is in the log.
};

/// What the scheduler decided: the last ones in memory, to be asked for, and all of them as lines
/// of JSON in a file, for replay and for people. Any thread; nobody waits for a disk but the
/// destructor.
class DecisionLog {
 public:
  /// Throws: what `Executor::spawn` throws. A file that cannot be written is told to the log.
  DecisionLog(Executor& executor, const DecisionLogOptions& options);
  /// To another sink, which outlives the log.
  DecisionLog(Executor& executor, const DecisionLogOptions& options, BlockSink& sink);
  /// Blocks: until what it holds is written.
  ~DecisionLog();

  /// Gives it its number, which the decision then bears, and cuts its texts.
  std::uint64_t add(Decision& decision);
  /// Passes lines on that are older than `flush_period`. Call it every tick.
  void flush(Time now) noexcept;
  /// Passes on what there is, and returns true when it is written or lost; false if `deadline`
  /// passes first on the steady clock. Blocks: as the disk does, until then.
  bool write_all(TimePoint deadline = TimePoint::max()) noexcept;

  /// Of those still kept: from number `sequence` on, the first `decisions_max` of them.
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
  std::unique_ptr<DecisionFile> file_;  // Null: the sink is another's, or there is none.
  std::unique_ptr<BlockQueue> queue_;   // Null: no lines are written.
};

}  // namespace vma
