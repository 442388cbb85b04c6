#include "migrate/gates/arrivals.hpp"

#include <algorithm>
#include <utility>

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
  streams_[index].word.store(word, std::memory_order_release);
}

void Arrivals::excuse(std::size_t index) noexcept {
  if (std::exchange(streams_[index].arrived, true)) return;
  --missing_;
}

void Arrivals::look() noexcept {
  for (Stream& stream : streams_) {
    if (stream.arrived || !has_written(stream.word, epoch_)) continue;
    stream.arrived = true;
    last_ = clock_.now();
    if (!first_) first_ = last_;
    --missing_;
  }
}

bool Arrivals::any_now() const noexcept {
  return std::ranges::any_of(
      streams_, [this](const Stream& stream) { return has_written(stream.word, epoch_); });
}

TimePoint Arrivals::first() const noexcept {
  return first_ ? *first_ : clock_.now();
}

TimePoint Arrivals::last() const noexcept {
  return first_ ? last_ : clock_.now();
}

}  // namespace vma
