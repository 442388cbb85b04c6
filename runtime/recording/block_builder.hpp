#pragma once

#include "recording/recording_format.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace vma {

/// Packs records into the payload of one block. Each block is independent of the previous one,
/// which limits damage to one block. Not thread-safe.
class BlockBuilder {
 public:
  BlockBuilder();

  /// Adds as many uses as fit, from the first one on, and returns their number; 0 if the block is
  /// full.
  std::size_t add(std::span<const RecordedUse> uses);
  // Each returns false if the record does not fit into the block. An empty block takes any record.
  // Requires: at most `place_runs_max` places; texts are cut to a decision's limits.
  bool add(const RecordedAllocation& allocation);
  bool add(const RecordedFree& free);
  bool add(const RecordedHint& hint);
  bool add(const RecordedMove& move);
  bool add(const RecordedStall& stall);
  bool add(const Decision& decision);
  bool add(const RecordedGap& gap);

  std::uint32_t records() const noexcept { return records_; }
  /// Returns the payload and begins the next block. Throws: std::bad_alloc, without any effect.
  std::vector<std::uint8_t> take();
  /// Drops the records and begins a new block.
  void clear() noexcept;

 private:
  bool begin(RecordType type, unsigned flags, Time time);
  void put(std::uint64_t value);
  void put_signed(std::uint64_t value);
  void put_time(std::optional<Time> time);
  void put_number(double value);
  void put_text(std::string_view text, std::size_t bytes_max);
  void put_place(std::optional<Place> place);
  void put_chunk(const DecidedChunk& chunk);

  std::vector<std::uint8_t> bytes_;
  std::uint8_t* at_ = nullptr;  // The next byte of `bytes_`.
  std::uint32_t records_ = 0;
  // The base of the next record's differences.
  std::uint64_t time_ = 0, allocation_ = 0, use_end_ = 0, use_bytes_ = 0;
};

}  // namespace vma
