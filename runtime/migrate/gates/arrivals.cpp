#include "migrate/gates/arrivals.hpp"

#include <atomic>

namespace vma {

Arrivals::Arrivals(Clock& clock, std::uint64_t epoch, std::size_t count)
    : clock_(clock), epoch_(epoch), streams_(count), missing_(count) {}

void Arrivals::expect(std::size_t index, std::uint64_t* word) noexcept {
  streams_[index].word = word;
  streams_[index].expected_at = clock_.now();
}

void Arrivals::excuse(std::size_t index) noexcept {
  Stream& stream = streams_[index];
  if (stream.arrived) return;
  stream.arrived = stream.excused = true;
  --missing_;
}

void Arrivals::look() noexcept {
  for (Stream& stream : streams_) {
    if (stream.arrived || stream.word == nullptr) continue;
    const std::atomic_ref<std::uint64_t> word(*stream.word);
    if (word.load(std::memory_order_acquire) != epoch_) continue;
    stream.arrived = true;
    stream.seen_at = last_ = clock_.now();
    if (!first_) first_ = last_;
    --missing_;
  }
}

std::optional<std::chrono::nanoseconds> Arrivals::depth(std::size_t index) const noexcept {
  const Stream& stream = streams_[index];
  if (!stream.arrived || stream.excused) return std::nullopt;
  return stream.seen_at - stream.expected_at;
}

TimePoint Arrivals::first() const noexcept {
  return first_ ? *first_ : clock_.now();
}

TimePoint Arrivals::last() const noexcept {
  return first_ ? last_ : clock_.now();
}

}  // namespace vma
