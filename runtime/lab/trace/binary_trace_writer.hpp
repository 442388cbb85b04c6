#pragma once

#include "base/whole_file.hpp"
#include "lab/trace/binary_trace_format.hpp"
#include "lab/trace/trace_sink.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vma {

/// Writes a binary trace; holds one block. Not thread-safe.
class BinaryTraceWriter final : public TraceSink {
 public:
  /// Throws: Error{invalid_argument} with the file, if it cannot be created.
  BinaryTraceWriter(const std::string& path, const TraceHeader& header);

  void write(std::span<const TraceEvent> events, const TraceTags& tags) override;
  void finish() override;

 private:
  std::vector<std::uint8_t> header_bytes(unsigned version) const;
  void add(const TraceEvent& event, const TraceTags& tags);
  void add_access(const TraceEvent& event);
  void add_allocation(const TraceEvent& event, const TraceTags& tags);
  void add_hint(const TraceEvent& event);
  void add_task(const TraceEvent& event, const TraceTags& tags);
  /// `kind`, and whether it waits for a task.
  static unsigned first_of(const TraceEvent& event);
  void put_after_task(const TraceEvent& event);
  void put_time(unsigned first, Time time);
  void put(std::uint64_t value);
  void put_tag(TagId tag, const TraceTags& tags);
  void end_block();
  void write_block(const BlockMarker& marker);

  std::string path_;
  TraceHeader header_;
  WholeFile file_;
  std::vector<std::uint8_t> payload_;
  std::uint8_t* at_ = nullptr;  // The next byte of `payload_`.
  std::uint32_t events_ = 0;    // In the current block.
  std::uint64_t events_before_ = 0, blocks_ = 0;
  TraceDifferences last_;
  std::unordered_map<TagId, std::uint32_t> block_tags_;  // Their numbers in the current block.
  Time time_{0};
  unsigned version_ = trace_version_first;
};

}  // namespace vma
