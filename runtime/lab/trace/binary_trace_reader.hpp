#pragma once

#include "lab/trace/trace_block_decoder.hpp"
#include "lab/trace/trace_source.hpp"
#include "recording/block_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// Reads a binary trace. Holds one block and one batch. Any fault of the file is thrown with its
/// name and the offset, by the constructor or the `next` that finds it: an experiment with half a
/// trace would be worthless.
class BinaryTraceReader final : public TraceSource {
 public:
  /// Throws: Error{invalid_argument} that names the file, the offset and the reason.
  explicit BinaryTraceReader(std::string path);

  std::span<const TraceEvent> next() override;

 private:
  bool next_block();
  void end(std::span<const std::uint8_t> payload);

  BlockFileReader file_;
  std::uint64_t at_ = 0;     // Where the next block begins.
  std::uint64_t block_ = 0;  // Where this block begins.
  std::uint32_t block_events_ = 0, block_found_ = 0;
  std::uint64_t blocks_ = 0, events_ = 0;  // So far.
  TraceBlockDecoder decoder_;              // Of the block that `file_` has read last.
  std::vector<TraceEvent> batch_;
  Time time_{0};  // Of the last event.
  bool ended_ = false;
};

}  // namespace vma
