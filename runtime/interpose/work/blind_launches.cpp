#include "interpose/work/blind_launches.hpp"

#include "interpose/work/time_budget.hpp"

#include <algorithm>

namespace vma::interpose {
namespace {

constexpr int half = 32;
constexpr std::uint64_t counted_max = 1024;  // Then earlier launches count half.

std::uint64_t shown_of(std::uint64_t counts) noexcept {
  return counts & 0xFFFF'FFFF;
}
std::uint64_t blind_of(std::uint64_t counts) noexcept {
  return counts >> half;
}

}  // namespace

void BlindLaunches::note(int gpu, std::uint32_t shown, std::uint32_t blind) noexcept {
  if (gpu < 0 || gpu >= gpus_max) return;
  Gpu& of = of_gpu_[static_cast<std::size_t>(gpu)];
  if (gpu >= gpus_.load(std::memory_order_relaxed)) {
    int known = gpus_;
    while (known <= gpu && !gpus_.compare_exchange_weak(known, gpu + 1)) {
    }
  }
  if (blind > 0) of.last_blind_ns.store(now_ns(), std::memory_order_relaxed);
  const std::uint64_t added = (std::uint64_t{blind} << half) + shown;
  std::uint64_t counts = of.counts.fetch_add(added, std::memory_order_relaxed) + added;
  if (shown_of(counts) + blind_of(counts) < counted_max) return;
  const std::uint64_t halved = (blind_of(counts) / 2 << half) + shown_of(counts) / 2;
  of.counts.compare_exchange_strong(counts, halved, std::memory_order_relaxed);  // Or a next one.
}

bool BlindLaunches::is_blind(int gpu) const noexcept {
  if (gpu < 0 || gpu >= gpus_max) return false;
  const Gpu& of = of_gpu_[static_cast<std::size_t>(gpu)];
  const std::uint64_t counts = of.counts.load(std::memory_order_relaxed);
  return blind_of(counts) > shown_of(counts) &&
         now_ns() - of.last_blind_ns.load(std::memory_order_relaxed) < memory_ns;
}

bool BlindLaunches::any_besides(int gpu) const noexcept {
  const int gpus = gpus_.load(std::memory_order_relaxed);
  for (int other = 0; other < gpus; ++other) {
    if (other != gpu && is_blind(other)) return true;
  }
  return false;
}

}  // namespace vma::interpose
