#pragma once

#include "recording/block_builder.hpp"
#include "recording/block_queue.hpp"
#include "recording/output_file.hpp"
#include "recording/recording_format.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vma {

/// Writes blocks to DIR/vmart-PID-N.rec, and to the next N when a file is full or was removed.
/// Blocks that cannot be written are counted, reported once in the log, and recorded in the file as
/// a gap once writing works again.
class RecordingFiles : public BlockSink {
 public:
  /// Does not open a file yet. `header.file` is the first N to try; existing files are not touched.
  RecordingFiles(std::string directory, RecordingHeader header, std::uint64_t file_bytes_max);

  void write(const DiskBlock& block, const Loss& lost_before) noexcept override;
  void finish(const Loss& lost_before) noexcept override;

  // Any thread.
  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }
  std::uint64_t records_lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_written() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  bool try_write(const DiskBlock& block);
  bool write_frame(const DiskBlock& block);
  bool tell_gap();
  bool ready(std::size_t bytes);
  int open_next();
  bool failed(int error, const std::string& path) noexcept;

  const std::string directory_;
  RecordingHeader header_;
  const std::string machine_json_;
  const std::uint64_t file_bytes_max_;
  OutputFile file_;
  std::uint32_t next_file_;
  bool opened_any_ = false;
  Loss untold_;  // Not recorded as a gap yet.
  std::atomic<std::uint64_t> failures_{0}, lost_{0}, bytes_{0};
};

struct RecordingOptions {
  std::string directory;                        ///< VMART_RECORD.
  std::uint64_t file_bytes_max = 1ull << 30;    ///< Then the next file begins.
  std::size_t blocks_max = 64;                  ///< Blocks waiting for the disk, 64 KiB each.
  Time flush_period = std::chrono::seconds(1);  ///< Maximum delay before a block is written.
};

struct RecordingStats {
  std::uint64_t records = 0;         ///< Includes lost ones.
  std::uint64_t records_lost = 0;    ///< The disk was too slow, full or removed.
  std::uint64_t write_failures = 0;  ///< Of files and blocks. The log contains the first one.
  std::uint64_t bytes_written = 0;
};

/// Records what happens to memory in files that the lab can replay; see
/// docs/reference/recordings.md.
///
/// Any thread may record; the call packs the record into a block of 64 KiB. The recording's own
/// thread writes full blocks. Only the destructor throws or waits for a disk.
class Recording {
 public:
  /// `header` describes the machine; `process`, `file` and `first_file` are filled in here. Throws:
  /// like `Executor::spawn`. If the directory cannot be written, that is logged.
  Recording(Executor& executor, const RecordingOptions& options, RecordingHeader header);
  /// Writes to another sink, which must outlive the recording.
  Recording(Executor& executor, const RecordingOptions& options, BlockSink& sink);
  /// Blocks: until all records are written.
  ~Recording();

  void add(std::span<const RecordedUse> uses) noexcept;
  void add(const RecordedAllocation& allocation) noexcept;
  void add(const RecordedFree& free) noexcept;
  void add(const RecordedHint& hint) noexcept;
  void add(const RecordedMove& move) noexcept;
  void add(const RecordedStall& stall) noexcept;
  void add(const Decision& decision) noexcept;

  /// Passes on blocks older than `flush_period`. Called every tick.
  void flush(Time now) noexcept;
  /// Passes on all records. Returns true once they are written or lost, or false if `deadline`
  /// passes first on the steady clock. Blocks: on the disk, until then.
  bool write_all(TimePoint deadline = TimePoint::max()) noexcept;

  RecordingStats stats() const;

 private:
  template <typename Record>
  void add_one(const Record& record) noexcept;
  void hand_over() noexcept VMART_REQUIRES(mutex_);

  const Time flush_period_;
  mutable Mutex mutex_;
  BlockBuilder builder_ VMART_GUARDED_BY(mutex_);
  Time flushed_ VMART_GUARDED_BY(mutex_){0};
  std::uint64_t records_ VMART_GUARDED_BY(mutex_) = 0;
  std::uint64_t lost_ VMART_GUARDED_BY(mutex_) = 0;  // For lack of memory.
  std::unique_ptr<RecordingFiles> files_;            // Null with an external sink.
  BlockQueue queue_;
};

}  // namespace vma
