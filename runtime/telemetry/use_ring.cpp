#include "telemetry/use_ring.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <bit>

namespace vma {
namespace {

constexpr int refused = -1;

/// Increments a number that only one thread writes.
void count_one(std::atomic<std::uint64_t>& number) noexcept {
  number.store(number.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Derives a nonzero state from the seed: xorshift never leaves zero.
std::uint64_t spread(std::uint64_t seed) {
  return ((seed + 1) * 0x9E3779B97F4A7C15u) | 1;
}

}  // namespace

UseRing::UseRing(std::size_t entries, std::uint64_t seed)
    : mask_(entries - 1),
      half_(entries / 2),
      // Zeroed, so that its pages exist before the first use is recorded.
      entries_(std::make_unique<Entry[]>(entries)),
      random_(spread(seed)) {
  VMART_CHECK(std::has_single_bit(entries) && entries >= 4, "a place is found by masking");
}

/// Returns log2 of the next use's weight, or `refused` if the use is not kept.
int UseRing::admit(std::uint64_t head) noexcept {
  tail_seen_ = tail_.load(std::memory_order_acquire);
  const std::uint64_t held = head - tail_seen_;
  if (held < half_) return 0;
  if (held > mask_) {
    count_one(lost_);
    return refused;
  }
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const int bits = held < half_ + half_ / 2 ? 2 : 4;
  // The high bits of xorshift are of better quality.
  if (random_ >> (64 - bits) != 0) {
    count_one(sampled_away_);
    return refused;
  }
  return bits;
}

std::size_t UseRing::take(std::vector<LoggedUse>& out, std::size_t max) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(head - tail, max));
  const std::size_t first = out.size();
  out.resize(first + count);
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[(tail + i) & mask_];
    out[first + i] = {Address{entry.address}, entry.bytes,
                      DeviceId{entry.device}, entry.kind,
                      entry.passes,           std::uint32_t{1} << entry.weight_bits,
                      TimePoint(entry.at_ns)};
  }
  tail_.store(tail + count, std::memory_order_release);
  return count;
}

bool UseRing::empty() const noexcept {
  return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
}

}  // namespace vma
