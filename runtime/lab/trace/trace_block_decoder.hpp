#pragma once

#include "lab/trace/binary_trace_format.hpp"
#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_tags.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// Unpacks the events of one block of a binary trace. Any bytes will do: what makes no sense ends
/// the block with a reason.
class TraceBlockDecoder {
 public:
  /// Readable bytes behind a payload, whatever they hold: so a record needs one look at the end and
  /// not one a byte.
  static constexpr std::size_t padding_bytes = 96;
  static_assert(padding_bytes > trace_record_bytes_max);

  TraceBlockDecoder() = default;
  /// Borrows the payload and the padding behind it.
  explicit TraceBlockDecoder(std::span<const std::uint8_t> payload)
      : begin_(payload.data()), at_(begin_), end_(begin_ + payload.size()) {}

  /// How many events it wrote to the front of `events`; fewer than fit at the block's end, or where
  /// it makes no sense. Texts come into `tags`.
  std::size_t next(std::span<TraceEvent> events, TraceTags& tags);
  /// Why the last `next` gave up; null at a good end.
  const char* trouble() const noexcept { return trouble_; }
  /// Of the record that made no sense, or of the next one; from the payload's beginning.
  std::size_t offset() const noexcept { return static_cast<std::size_t>(at_ - begin_); }
  bool done() const noexcept { return at_ == end_ || trouble_ != nullptr; }

 private:
  std::uint64_t number() noexcept;
  void read_access(TraceEvent& event, unsigned first) noexcept;
  void read_allocation(TraceEvent& event, unsigned first, TraceTags& tags);
  void read_other(TraceEvent& event, unsigned first, TraceTags& tags);
  TracePlace place() noexcept;
  TagId tag(TraceTags& tags);

  const std::uint8_t* begin_ = nullptr;
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  const char* trouble_ = nullptr;
  TraceDifferences last_;
  std::vector<TagId> tags_;  // By their numbers in this block.
};

}  // namespace vma
