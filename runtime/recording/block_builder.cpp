#include "recording/block_builder.hpp"

#include "base/check.hpp"
#include "recording/block_file.hpp"

#include <algorithm>
#include <bit>

namespace vma {
namespace {

/// Upper bounds of the size of a use and of any other record. A block counts as full if the next
/// record might not fit.
constexpr std::size_t use_bytes_max = 2 + 6 * varint_bytes_max + 4;
constexpr std::size_t record_bytes_max = 16 * 1024;
static_assert(record_bytes_max > place_runs_max * (2 + 5) + decision_name_bytes_max + 128);
static_assert(record_bytes_max > 2 * decision_text_bytes_max + 2 * decision_name_bytes_max + 512);
static_assert(recording_file.payload_bytes_max >= 2 * record_bytes_max);

constexpr unsigned kind_shift = 4;
constexpr unsigned extra_flag = 0x40;

std::uint64_t unsigned_of(Time time) {
  return static_cast<std::uint64_t>(time.count());
}

}  // namespace

BlockBuilder::BlockBuilder() {
  take();
}

std::vector<std::uint8_t> BlockBuilder::take() {
  std::vector<std::uint8_t> payload(recording_file.payload_bytes_max);
  payload.swap(bytes_);
  if (at_ != nullptr) payload.resize(static_cast<std::size_t>(at_ - payload.data()));
  clear();
  return payload;
}

void BlockBuilder::clear() noexcept {
  at_ = bytes_.data();
  records_ = 0;
  time_ = allocation_ = use_end_ = use_bytes_ = 0;
}

/// Stores slowly changing values as differences modulo 2^64, so that every value can be
/// represented.
std::size_t BlockBuilder::add(std::span<const RecordedUse> uses) {
  const std::uint8_t* const last = bytes_.data() + (bytes_.size() - use_bytes_max);
  std::uint8_t* at = at_;
  std::size_t added = 0;
  for (const RecordedUse& use : uses) {
    if (at > last) break;
    const bool extra = use.passes != 1 || use.weight != 1;
    *at++ = static_cast<std::uint8_t>(static_cast<unsigned>(RecordType::use) |
                                      static_cast<unsigned>(use.kind) << kind_shift |
                                      (extra ? extra_flag : 0));
    *at++ = static_cast<std::uint8_t>(use.device);
    at = put_varint(at, zigzag(unsigned_of(use.time) - time_));
    at = put_varint(at, zigzag(use.allocation - allocation_));
    at = put_varint(at, zigzag(use.offset - use_end_));
    at = put_varint(at, zigzag(use.bytes - use_bytes_));
    if (extra) {
      at = put_fixed(at, std::bit_cast<std::uint32_t>(use.passes));
      at = put_varint(at, use.weight);
    }
    time_ = unsigned_of(use.time);
    allocation_ = use.allocation;
    use_end_ = use.offset + use.bytes;
    use_bytes_ = use.bytes;
    ++added;
  }
  at_ = at;
  records_ += static_cast<std::uint32_t>(added);
  return added;
}

bool BlockBuilder::begin(RecordType type, unsigned flags, Time time) {
  const auto used = static_cast<std::size_t>(at_ - bytes_.data());
  if (bytes_.size() - used < record_bytes_max) return false;
  *at_++ = static_cast<std::uint8_t>(static_cast<unsigned>(type) | flags << kind_shift);
  put_signed(unsigned_of(time) - time_);
  time_ = unsigned_of(time);
  ++records_;
  return true;
}

void BlockBuilder::put(std::uint64_t value) {
  at_ = put_varint(at_, value);
}

void BlockBuilder::put_signed(std::uint64_t value) {
  put(zigzag(value));
}

/// Writes 0 for none, otherwise 1 followed by the time.
void BlockBuilder::put_time(std::optional<Time> time) {
  put(time.has_value() ? 1u : 0u);
  if (time) put_signed(unsigned_of(*time));
}

void BlockBuilder::put_number(double value) {
  at_ = put_fixed(at_, std::bit_cast<std::uint64_t>(value));
}

void BlockBuilder::put_text(std::string_view text, std::size_t bytes_max) {
  text = text.substr(0, bytes_max);
  put(text.size());
  at_ = std::copy(text.begin(), text.end(), at_);
}

/// Writes 0 for none, 1 for a GPU or 2 for a host node, followed by the ordinal.
void BlockBuilder::put_place(std::optional<Place> place) {
  if (!place) return put(0);
  put(place->kind == Place::Kind::gpu ? 1 : 2);
  put_signed(static_cast<std::uint64_t>(static_cast<std::int64_t>(place->ordinal)));
}

bool BlockBuilder::add(const RecordedAllocation& allocation) {
  VMART_CHECK(allocation.places.size() <= place_runs_max, "the recorder splits long records");
  if (!begin(RecordType::allocation, 0, allocation.time)) return false;
  put(allocation.allocation);
  put(allocation.begin);
  put(allocation.bytes);
  put(allocation.chunk_bytes);
  put_text(allocation.tag, decision_name_bytes_max);
  put(allocation.first_slot);
  put(allocation.places.size());
  for (const PlaceRun& run : allocation.places) {
    *at_++ = static_cast<std::uint8_t>(run.at);
    put(run.chunks);
  }
  return true;
}

bool BlockBuilder::add(const RecordedFree& free) {
  if (!begin(RecordType::free, 0, free.time)) return false;
  put(free.allocation);
  return true;
}

bool BlockBuilder::add(const RecordedHint& hint) {
  if (!begin(RecordType::hint, hint.hint.read_mostly ? 1 : 0, hint.time)) return false;
  put(hint.allocation);
  put(hint.offset);
  put(hint.bytes);
  put_place(hint.hint.device);
  put_time(hint.hint.next_use);
  put_number(hint.hint.passes);
  put_time(hint.hint.until);
  return true;
}

bool BlockBuilder::add(const RecordedMove& move) {
  if (!begin(RecordType::move, move.moved ? 1 : 0, move.end)) return false;
  put_signed(unsigned_of(move.end) - unsigned_of(move.start));
  put_signed(unsigned_of(move.stall));
  put(move.allocation);
  put(move.slot);
  put(move.bytes);
  put(move.decision);
  *at_++ = static_cast<std::uint8_t>(move.from);
  *at_++ = static_cast<std::uint8_t>(move.to);
  return true;
}

bool BlockBuilder::add(const RecordedStall& stall) {
  if (!begin(RecordType::stall, 0, stall.time)) return false;
  put_signed(unsigned_of(stall.stall));
  put_signed(unsigned_of(stall.skew));
  put(stall.allocation);
  put(stall.streams);
  return true;
}

void BlockBuilder::put_chunk(const DecidedChunk& chunk) {
  put(chunk.allocation);
  put(chunk.begin);
  put(chunk.slot);
  put(chunk.bytes);
  put_text(chunk.tag, decision_name_bytes_max);
}

bool BlockBuilder::add(const Decision& decision) {
  const unsigned flags = (decision.victim ? 1u : 0u) | (decision.chunk ? 2u : 0u) |
                         (decision.predicted ? 4u : 0u) | (decision.happened ? 8u : 0u);
  if (!begin(RecordType::decision, flags, decision.time)) return false;
  put(static_cast<std::uint64_t>(decision.kind));
  put(decision.sequence);
  put(decision.plan);
  put_text(decision.policy, decision_name_bytes_max);
  if (decision.chunk) put_chunk(*decision.chunk);
  put_place(decision.from);
  put_place(decision.to);
  put_text(decision.why, decision_text_bytes_max);
  put_text(decision.reason, decision_text_bytes_max);
  put_number(decision.value);
  for (const auto& times : {decision.predicted, decision.happened}) {
    if (!times) continue;
    put_signed(unsigned_of(times->move));
    put_signed(unsigned_of(times->stall));
  }
  put_time(decision.began);
  put_time(decision.ended);
  return true;
}

/// The time of a gap is unknown, so its time difference is 0.
bool BlockBuilder::add(const RecordedGap& gap) {
  if (!begin(RecordType::gap, 0, Time(static_cast<std::int64_t>(time_)))) return false;
  put(gap.records);
  put(gap.blocks);
  return true;
}

}  // namespace vma
