#include "migrate/gates/arrivals.hpp"

#include <algorithm>

namespace vma {
namespace {

bool has_written(const std::atomic<std::uint64_t*>& place, std::uint64_t epoch) noexcept {
  std::uint64_t* const word = place.load(std::memory_order_acquire);
  return word != nullptr &&
         std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire) == epoch;
}

}  // namespace

Arrivals::Arrivals(Clock& clock, std::uint64_t epoch, std::size_t count)
    : clock_(clock), epoch_(epoch), streams_(count), missing_(count) {}

void Arrivals::expect(std::size_t index, std::uint64_t* word) noexcept {
  streams_[index].expected_at = clock_.now();
  streams_[index].word.store(word, std::memory_order_release);
}

void Arrivals::excuse(std::size_t index) noexcept {
  Stream& stream = streams_[index];
  if (stream.arrived) return;
  stream.arrived = stream.excused = true;
  --missing_;
}

void Arrivals::look() noexcept {
  for (Stream& stream : streams_) {
    if (stream.arrived || !has_written(stream.word, epoch_)) continue;
    stream.arrived = true;
    stream.seen_at = last_ = clock_.now();
    if (!first_) first_ = last_;
    --missing_;
  }
}

bool Arrivals::any_now() const noexcept {
  return std::ranges::any_of(
      streams_, [this](const Stream& stream) { return has_written(stream.word, epoch_); });
}

void Arrivals::were_seen_by(TimePoint latest) noexcept {
  for (Stream& stream : streams_) {
    if (!stream.arrived || stream.excused) continue;
    stream.seen_at =
        std::clamp(latest, stream.expected_at, std::max(stream.expected_at, stream.seen_at));
  }
}

bool Arrivals::waits() const noexcept {
  return std::ranges::any_of(
      streams_, [](const Stream& stream) { return stream.word != nullptr && !stream.arrived; });
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
