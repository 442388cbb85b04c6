#include "migrate/stops/stall_forecast.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace vma {
namespace {

/// How much of the past a new duration outweighs.
constexpr double new_weight = 0.25;

// Guesses until something was measured, from H200 (docs/results/live_moves.md).
constexpr double unmap_ns = 18'000;
constexpr double grant_ns = 27'000;  // For each GPU.
constexpr double settle_guess_ns_per_byte = 1.0 / 3000;
constexpr double copy_guess_ns_per_byte = 1.0 / 20;
constexpr double host_grant_ns_per_byte = 8'000.0 / (1 << 20);

/// A single call that took long says little about the next one.
void learn(double& average, double sample) {
  constexpr double outlier = 4;
  average = (1 - new_weight) * average + new_weight * std::min(sample, outlier * average);
}

std::chrono::nanoseconds rounded(double nanoseconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

}  // namespace

StallForecast::Kind StallForecast::kind_of(const Switch& which) {
  return {which.from.kind, which.to.kind, static_cast<int>(std::bit_width(which.size_bytes)),
          which.gpus};
}

StallForecast::StallForecast()
    : settle_ns_per_byte_(settle_guess_ns_per_byte), copy_ns_per_byte_(copy_guess_ns_per_byte) {}

std::chrono::nanoseconds StallForecast::fill_time(Fill fill, std::uint64_t size_bytes) const {
  if (fill == Fill::none) return std::chrono::nanoseconds(0);
  const MutexLock lock(mutex_);
  const double each = fill == Fill::settle ? settle_ns_per_byte_ : copy_ns_per_byte_;
  return rounded(each * static_cast<double>(size_bytes));
}

std::chrono::nanoseconds StallForecast::switch_time(const Switch& which) const {
  const MutexLock lock(mutex_);
  const auto known = switch_ns_.find(kind_of(which));
  if (known != switch_ns_.end()) return rounded(known->second);
  const auto gpus = static_cast<double>(which.gpus);
  const double bytes = static_cast<double>(which.size_bytes);
  const bool to_host = which.to.kind == Place::Kind::host;
  return rounded(unmap_ns + gpus * (grant_ns + (to_host ? host_grant_ns_per_byte * bytes : 0)));
}

void StallForecast::note_filled(Fill fill, std::uint64_t size_bytes,
                                std::chrono::nanoseconds took) {
  if (fill == Fill::none) return;
  const MutexLock lock(mutex_);
  learn(fill == Fill::settle ? settle_ns_per_byte_ : copy_ns_per_byte_,
        static_cast<double>(took.count()) / static_cast<double>(size_bytes));
}

void StallForecast::note_filled_within(Fill fill, std::uint64_t size_bytes,
                                       std::chrono::nanoseconds limit) {
  if (size_bytes != 0 && fill_time(fill, size_bytes) > limit) note_filled(fill, size_bytes, limit);
}

void StallForecast::note_switched(const Switch& which, std::chrono::nanoseconds took) noexcept try {
  const auto sample = static_cast<double>(took.count());
  const MutexLock lock(mutex_);
  const auto [known, first] = switch_ns_.try_emplace(kind_of(which), sample);
  if (!first) learn(known->second, sample);
} catch (const std::bad_alloc&) {  // A guess will do.
}

StallForecast::Suspending StallForecast::suspending(Suspending guess) const {
  const MutexLock lock(mutex_);
  if (off_ns_ == 0) return guess;
  return {rounded(off_ns_), rounded(on_ns_)};
}

void StallForecast::note_suspended(Suspending took) noexcept {
  const auto note = [](double& average, std::chrono::nanoseconds sample) {
    const auto taken = static_cast<double>(sample.count());
    average == 0 ? void(average = taken) : learn(average, taken);
  };
  const MutexLock lock(mutex_);
  note(off_ns_, took.off);
  note(on_ns_, took.on);
}

}  // namespace vma
