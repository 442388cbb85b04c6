#pragma once

#include "recording/block_file.hpp"
#include "recording/recording_format.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  std::optional<Place> place_or_none() noexcept;
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

/// A part of a recording, starting at `offset`, that could not be read.
struct RecordingDamage {
  std::uint64_t offset = 0;
  std::string reason;
};

/// Reads one file of a recording, record by record, whatever it contains. A damaged block is
/// skipped and reported. A file that ends in the middle of a block is torn: its writer was
/// interrupted. Holds one block in memory. Needs no driver. Not thread-safe.
class RecordingReader {
 public:
  /// Throws: Error{invalid_argument} that names the file, the offset and the reason, if the file
  /// cannot be read, is not a recording, or has another version.
  explicit RecordingReader(std::string path);

  const RecordingHeader& header() const noexcept { return header_; }
  /// The next record, or null after the last one. Valid until the next call.
  const RecordedEvent* next();

  /// The damage found so far. After `damages_max` entries, skips the rest of the file.
  std::span<const RecordingDamage> damages() const noexcept { return damages_; }
  /// Whether the file ends in the middle of a block. Known after the last record.
  bool torn() const noexcept { return torn_; }
  std::uint64_t blocks() const noexcept { return blocks_; }

  static constexpr std::size_t damages_max = 1000;

 private:
  void read_header();
  bool next_block();
  bool find_marker(std::uint64_t from);
  bool begins_block(std::uint64_t offset);
  void damage(std::uint64_t offset, std::string reason);

  BlockFileReader file_;
  std::uint64_t at_ = 0;     // Offset of the next block.
  std::uint64_t block_ = 0;  // Offset of the current block.
  std::uint32_t block_records_ = 0;
  RecordingHeader header_;
  BlockDecoder decoder_;  // Of the last block that `file_` has read, while `in_block_`.
  bool in_block_ = false;
  RecordedEvent event_;
  std::vector<RecordingDamage> damages_;
  bool torn_ = false;
  std::uint64_t blocks_ = 0;  // Number of blocks with a valid checksum.
};

}  // namespace vma
