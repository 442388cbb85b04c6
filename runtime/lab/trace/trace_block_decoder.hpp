#pragma once

#include "lab/trace/binary_trace_format.hpp"
#include "lab/trace/trace_event.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// Decodes the events of one block of a binary trace. Any bytes are safe input: an invalid record
/// ends the block with a reason.
class TraceBlockDecoder {
 public:
  /// Readable bytes after a payload, with any contents, so that a record needs one bounds check
  /// instead of one per byte.
  static constexpr std::size_t padding_bytes = 96;
  static_assert(padding_bytes > trace_record_bytes_max);

  TraceBlockDecoder() = default;
  /// Borrows the payload and the padding after it.
  explicit TraceBlockDecoder(std::span<const std::uint8_t> payload)
      : begin_(payload.data()), at_(begin_), end_(begin_ + payload.size()) {}

  /// Returns the number of events written to `events`; it is below `events.size()` only at the end
  /// of the block or at an invalid record. Adds texts to `tags`.
  std::size_t next(std::span<TraceEvent> events, TraceTags& tags);
  /// Why the last `next` failed; null if it succeeded.
  const char* trouble() const noexcept { return trouble_; }
  /// Offset of the invalid record in the payload, or of the next record.
  std::size_t offset() const noexcept { return static_cast<std::size_t>(at_ - begin_); }
  bool done() const noexcept { return at_ == end_ || trouble_ != nullptr; }

 private:
  std::uint64_t number() noexcept;
  void read_access(TraceEvent& event, unsigned first) noexcept;
  void read_allocation(TraceEvent& event, unsigned first, TraceTags& tags);
  void read_task(TraceEvent& event, unsigned first, TraceTags& tags);
  void read_after(TraceEvent& event) noexcept;
  void read_hint(TraceEvent& event) noexcept;
  void read_after_task(TraceEvent& event, unsigned first) noexcept;
  std::uint32_t task_number() noexcept;
  void read_other(TraceEvent& event, unsigned first, TraceTags& tags);
  TracePlace place() noexcept;
  TagId tag(TraceTags& tags);

  const std::uint8_t* begin_ = nullptr;
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  const char* trouble_ = nullptr;
  TraceDifferences last_;
  std::vector<TagId> tags_;  // Indexed by their numbers in this block.
};

}  // namespace vma
