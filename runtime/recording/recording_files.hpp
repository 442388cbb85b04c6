#pragma once

#include "recording/block_queue.hpp"
#include "recording/output_file.hpp"
#include "recording/recording_header.hpp"

#include <atomic>
#include <cstdint>
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

}  // namespace vma
