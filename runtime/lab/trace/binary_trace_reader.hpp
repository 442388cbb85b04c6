#pragma once

#include "lab/trace/trace_block_decoder.hpp"
#include "lab/trace/trace_source.hpp"
#include "recording/block_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// Reads a binary trace; holds one block and one batch. The constructor and `next` throw at the
/// first fault in the file: an experiment with half a trace would be worthless.
class BinaryTraceReader final : public TraceSource {
 public:
  /// Throws: Error{invalid_argument} with the file, the offset and the reason.
  explicit BinaryTraceReader(std::string path);

  std::span<const TraceEvent> next() override;

 private:
  bool next_block();
  void end(std::span<const std::uint8_t> payload);

  BlockFileReader file_;
  std::uint64_t at_ = 0;     // Offset of the next block.
  std::uint64_t block_ = 0;  // Offset of the current block.
  std::uint32_t block_events_ = 0, block_found_ = 0;
  std::uint64_t blocks_ = 0, events_ = 0;  // Read so far.
  TraceBlockDecoder decoder_;              // Of the block that `file_` has read last.
  std::vector<TraceEvent> batch_;
  Time time_{0};  // Time of the last event.
  bool ended_ = false;
};

}  // namespace vma
