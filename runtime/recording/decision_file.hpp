#pragma once

#include "recording/block_queue.hpp"
#include "recording/output_file.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace vma {

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

}  // namespace vma
