#pragma once

#include "lab/trace/trace_block_decoder.hpp"
#include "lab/trace/trace_source.hpp"

#include <cstdint>
#include <fstream>
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
  [[noreturn]] void refuse(std::uint64_t offset, const std::string& reason) const;
  void read_header();
  bool read(std::span<std::uint8_t> bytes);
  bool next_block();
  void end(std::span<const std::uint8_t> payload);

  const std::string path_;
  std::ifstream file_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t at_ = 0;     // Position in the file up to which it was read.
  std::uint64_t block_ = 0;  // Where this block begins.
  std::uint32_t block_events_ = 0, block_found_ = 0;
  std::uint64_t blocks_ = 0, events_ = 0;  // So far.
  std::vector<std::uint8_t> payload_;      // With the decoder's padding.
  TraceBlockDecoder decoder_;              // Of `payload_`.
  std::vector<TraceEvent> batch_;
  Time time_{0};  // Of the last event.
  bool ended_ = false;
};

}  // namespace vma
