#include "recording/reading/recording_reader.hpp"

#include "recording/block_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <utility>

namespace vma {
namespace {

/// Reuses the alternative that `event` already holds, if possible, to keep the memory of its
/// strings.
template <typename Record>
Record& fresh(RecordedEvent& event) {
  Record* record = std::get_if<Record>(&event);
  if (record == nullptr) return event.emplace<Record>();
  *record = Record{};
  return *record;
}

}  // namespace

BlockDecoder::BlockDecoder(std::span<const std::uint8_t> payload, std::size_t places)
    : at_(payload.data()), end_(payload.data() + payload.size()), places_(places) {}

/// Stops reading at the first error.
void BlockDecoder::fail(const char* why) noexcept {
  if (trouble_ == nullptr) trouble_ = why;
  at_ = end_;
}

std::uint8_t BlockDecoder::byte() noexcept {
  if (at_ == end_) return fail("a record ends too early"), std::uint8_t{0};
  return *at_++;
}

std::uint64_t BlockDecoder::number() noexcept {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 7 * varint_bytes_max; shift += 7) {
    const std::uint8_t next = byte();
    if (shift == 63 && next > 1) break;
    value |= static_cast<std::uint64_t>(next & 0x7F) << shift;
    if (next < 0x80) return value;
  }
  fail("a number is too long");
  return 0;
}

std::uint64_t BlockDecoder::difference() noexcept {
  return unzigzag(number());
}

std::uint32_t BlockDecoder::number32() noexcept {
  const std::uint64_t value = number();
  if (value > UINT32_MAX) fail("a number is too large");
  return static_cast<std::uint32_t>(value);
}

Time BlockDecoder::time() noexcept {
  return Time(static_cast<std::int64_t>(difference()));
}

std::optional<Time> BlockDecoder::optional_time() noexcept {
  const std::uint8_t is_set = byte();
  if (is_set > 1) fail("a time's presence flag is invalid");
  if (is_set == 0) return std::nullopt;
  return time();
}

double BlockDecoder::real() noexcept {
  if (end_ - at_ < 8) return fail("a record ends too early"), 0;
  const auto bits = get_fixed<std::uint64_t>(at_);
  at_ += 8;
  return std::bit_cast<double>(bits);
}

std::string BlockDecoder::text(std::size_t bytes_max) {
  const std::uint64_t bytes = number();
  if (bytes > bytes_max || bytes > static_cast<std::uint64_t>(end_ - at_)) {
    return fail("a text is too long"), std::string();
  }
  std::string text(at_, at_ + bytes);
  at_ += bytes;
  return text;
}

PlaceId BlockDecoder::place() noexcept {
  const std::uint8_t place = byte();
  if (place >= places_) fail("a place does not belong to the machine");
  return PlaceId{place};
}

std::optional<Place> BlockDecoder::place_or_none() noexcept {
  const std::uint8_t kind = byte();
  if (kind == 0) return std::nullopt;
  const auto ordinal = static_cast<std::int64_t>(difference());
  if (kind > 2 || ordinal < INT_MIN || ordinal > INT_MAX) fail("a place is invalid");
  const auto number = static_cast<int>(std::clamp<std::int64_t>(ordinal, INT_MIN, INT_MAX));
  return kind == 1 ? gpu(number) : host(number);
}

Time BlockDecoder::begin() noexcept {
  time_ += difference();
  return Time(static_cast<std::int64_t>(time_));
}

void BlockDecoder::read(RecordedUse& use, unsigned flags) noexcept {
  const unsigned kind = flags & 3;
  if (kind > static_cast<unsigned>(UseKind::read_write)) fail("a use has an invalid kind");
  use.kind = static_cast<UseKind>(kind);
  use.device = place();
  use.time = begin();
  use.allocation = allocation_ += difference();
  use.offset = use_end_ + difference();
  use.bytes = use_bytes_ += difference();
  use_end_ = use.offset + use.bytes;
  if ((flags & 4) == 0) return;
  if (end_ - at_ < 4) return fail("a record ends too early");
  use.passes = std::bit_cast<float>(get_fixed<std::uint32_t>(at_));
  at_ += 4;
  use.weight = number32();
}

void BlockDecoder::read(RecordedAllocation& allocation) {
  allocation.time = begin();
  allocation.allocation = number();
  allocation.begin = number();
  allocation.bytes = number();
  allocation.chunk_bytes = number();
  allocation.tag = text(decision_name_bytes_max);
  allocation.first_slot = number32();
  const std::uint64_t runs = number();
  if (runs > place_runs_max) return fail("an allocation has too many places");
  for (std::uint64_t run = 0; run < runs && trouble_ == nullptr; ++run) {
    const PlaceId at = place();
    allocation.places.push_back({at, number32()});
  }
}

void BlockDecoder::read(RecordedHint& hint, unsigned flags) {
  hint.time = begin();
  hint.allocation = number();
  hint.offset = number();
  hint.bytes = number();
  const std::optional<Place> device = place_or_none();
  if (!device) fail("a hint names no device");
  hint.hint.device = device.value_or(Place{});
  hint.hint.next_use = optional_time();
  hint.hint.passes = real();
  hint.hint.until = optional_time();
  hint.hint.read_mostly = (flags & 1) != 0;
}

void BlockDecoder::read(RecordedMove& move, unsigned flags) {
  move.end = begin();
  move.start = Time(static_cast<std::int64_t>(time_ - difference()));
  move.stall = time();
  move.allocation = number();
  move.slot = number32();
  move.bytes = number();
  move.decision = number();
  move.from = place();
  move.to = place();
  move.moved = (flags & 1) != 0;
}

void BlockDecoder::read(RecordedStall& stall) {
  stall.time = begin();
  stall.stall = time();
  stall.skew = time();
  stall.allocation = number();
  stall.streams = number32();
}

void BlockDecoder::read(Decision& decision, unsigned flags) {
  decision.time = begin();
  decision.victim = (flags & 1) != 0;
  const std::uint64_t kind = number();
  if (kind >= decision_kinds) fail("a decision has an invalid kind");
  decision.kind = static_cast<DecisionKind>(std::min<std::uint64_t>(kind, decision_kinds - 1));
  decision.sequence = number();
  decision.plan = number();
  decision.policy = text(decision_name_bytes_max);
  if ((flags & 2) != 0) {
    DecidedChunk& chunk = decision.chunk.emplace();
    chunk.allocation = number();
    chunk.begin = number();
    chunk.slot = number32();
    chunk.bytes = number();
    chunk.tag = text(decision_name_bytes_max);
  }
  decision.from = place_or_none();
  decision.to = place_or_none();
  decision.why = text(decision_text_bytes_max);
  decision.reason = text(decision_text_bytes_max);
  decision.value = real();
  const auto times = [this](std::optional<MoveTimes>& read) {
    read.emplace();
    read->move = time();
    read->stall = time();
  };
  if ((flags & 4) != 0) times(decision.predicted);
  if ((flags & 8) != 0) times(decision.happened);
  decision.began = optional_time();
  decision.ended = optional_time();
}

void BlockDecoder::dispatch(RecordedEvent& event, unsigned type, unsigned flags) {
  switch (static_cast<RecordType>(type)) {
    case RecordType::use: return read(fresh<RecordedUse>(event), flags);
    case RecordType::allocation: return read(fresh<RecordedAllocation>(event));
    case RecordType::free: {
      auto& free = fresh<RecordedFree>(event);
      free.time = begin();
      free.allocation = number();
      return;
    }
    case RecordType::hint: return read(fresh<RecordedHint>(event), flags);
    case RecordType::move: return read(fresh<RecordedMove>(event), flags);
    case RecordType::stall: return read(fresh<RecordedStall>(event));
    case RecordType::decision: return read(fresh<Decision>(event), flags);
    case RecordType::gap: {
      auto& gap = fresh<RecordedGap>(event);
      begin();
      gap.records = number();
      gap.blocks = number();
      return;
    }
  }
  fail("a record has an invalid type");
}

bool BlockDecoder::next(RecordedEvent& event) {
  if (at_ == end_) return false;
  const std::uint8_t first = *at_++;
  dispatch(event, first & 0xFu, first >> 4);
  if (trouble_ != nullptr) return false;
  ++records_;
  return true;
}

RecordingReader::RecordingReader(std::string path) : file_(std::move(path), recording_file) {
  const std::uint8_t* const fields = file_.fields().data();
  header_.clock_start_utc_ns = get_fixed<std::uint64_t>(fields);
  header_.process = get_fixed<std::uint32_t>(fields + 8);
  header_.file = get_fixed<std::uint32_t>(fields + 12);
  header_.first_file = get_fixed<std::uint32_t>(fields + 16);
  read_machine_json(file_.json(), file_.path(), header_);
  at_ = file_.first_block();
}

void RecordingReader::damage(std::uint64_t offset, std::string reason) {
  damages_.push_back({offset, std::move(reason)});
  if (damages_.size() == damages_max) at_ = file_.size_bytes();
}

bool RecordingReader::begins_block(std::uint64_t offset) {
  BlockMarker marker{};
  return file_.read_at(offset, marker) && marker == recording_block;
}

/// Advances to the first marker at or after `from`. Returns false at the end of the file if there
/// is none.
bool RecordingReader::find_marker(std::uint64_t from) {
  std::vector<std::uint8_t> window(64 * 1024);
  while (from < file_.size_bytes()) {
    const std::uint64_t left = file_.size_bytes() - from;
    const std::span bytes(window.data(), std::min<std::uint64_t>(window.size(), left));
    if (!file_.read_at(from, bytes)) break;
    const auto found =
        std::search(bytes.begin(), bytes.end(), recording_block.begin(), recording_block.end());
    if (found != bytes.end()) {
      at_ = from + static_cast<std::uint64_t>(found - bytes.begin());
      return true;
    }
    if (bytes.size() == left) break;
    from += bytes.size() - (recording_block.size() - 1);  // A marker may span two windows.
  }
  at_ = file_.size_bytes();
  return false;
}

/// Reads the block at `at_`, or records its damage and finds the next one. Returns false at the end
/// of the file.
bool RecordingReader::next_block() {
  using Fault = BlockFileReader::Fault;
  if (at_ == file_.size_bytes()) return false;
  block_ = at_;
  const BlockFileReader::Block read = file_.read_block(block_);
  const bool marked = read.fault != Fault::no_head && read.marker == recording_block;
  if (marked && read.fault == Fault::none) {
    at_ = read.end;
    block_records_ = read.records;
    decoder_ = BlockDecoder(read.payload, header_.places.size());
    in_block_ = true;
    ++blocks_;
    return true;
  }
  if (marked && read.fault == Fault::checksum) {
    // A correct length leads to another block or to the end of the file.
    if (read.end == file_.size_bytes() || begins_block(read.end)) {
      at_ = read.end;
    } else {
      find_marker(block_ + 1);
    }
    damage(block_, "a block's checksum is wrong");
    return true;
  }
  if (find_marker(block_ + 1)) {
    damage(block_, "expected a block");
  } else {
    torn_ = true;
  }
  return at_ < file_.size_bytes();
}

const RecordedEvent* RecordingReader::next() {
  for (;;) {
    if (in_block_) {
      if (decoder_.next(event_)) return &event_;
      in_block_ = false;
      if (decoder_.trouble() != nullptr) {
        damage(block_, fmt::format("after {} records: {}", decoder_.records(), decoder_.trouble()));
      } else if (decoder_.records() != block_records_) {
        damage(block_, fmt::format("holds {} records, not {}", decoder_.records(), block_records_));
      }
    }
    if (!next_block()) return nullptr;
  }
}

}  // namespace vma
