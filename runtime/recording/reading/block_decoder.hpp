#pragma once

#include "recording/recording_format.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vma {

/// Unpacks what `BlockBuilder` packed. Accepts arbitrary bytes: an invalid record ends the block
/// with a reason, and memory use is bounded by the payload's size.
class BlockDecoder {
 public:
  BlockDecoder() = default;
  /// `places` is the machine's number of places; a record that names another one is invalid.
  /// Borrows the payload.
  BlockDecoder(std::span<const std::uint8_t> payload, std::size_t places);

  /// Returns false at the end of the block or at an invalid record.
  bool next(RecordedEvent& event);
  /// Why the last `next` failed; null at the regular end.
  const char* trouble() const noexcept { return trouble_; }
  std::uint32_t records() const noexcept { return records_; }

 private:
  void fail(const char* why) noexcept;
  std::uint8_t byte() noexcept;
  std::uint64_t number() noexcept;
  std::uint64_t difference() noexcept;
  std::uint32_t number32() noexcept;
  Time time() noexcept;
  std::optional<Time> optional_time() noexcept;
  double real() noexcept;
  std::string text(std::size_t bytes_max);
  PlaceId place() noexcept;
  std::optional<Location> location() noexcept;
  Time begin() noexcept;

  void read(RecordedUse& use, unsigned flags) noexcept;
  void read(RecordedAllocation& allocation);
  void read(RecordedHint& hint, unsigned flags);
  void read(RecordedMove& move, unsigned flags);
  void read(RecordedStall& stall);
  void read(Decision& decision, unsigned flags);
  void dispatch(RecordedEvent& event, unsigned type, unsigned flags);

  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  std::size_t places_ = 0;
  const char* trouble_ = nullptr;
  std::uint32_t records_ = 0;
  std::uint64_t time_ = 0, allocation_ = 0, use_end_ = 0, use_bytes_ = 0;
};

}  // namespace vma
