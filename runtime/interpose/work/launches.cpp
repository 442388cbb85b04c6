#include "interpose/work/launches.hpp"

#include <algorithm>
#include <span>

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

bool lets_overlap(const CUlaunchAttribute& attribute) noexcept {
  return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
         attribute.value.programmaticStreamSerializationAllowed != 0;
}

}  // namespace

// --- BlindLaunches

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

// --- Launches that overlap

bool may_overlap(const CUlaunchConfig& config) noexcept {
  return config.attrs != nullptr &&
         std::ranges::any_of(std::span(config.attrs, config.numAttrs), lets_overlap);
}

SerialLaunch::SerialLaunch(const CUlaunchConfig& config) noexcept : config_(config) {
  if (config.numAttrs > attributes_max) return;
  std::ranges::copy(std::span(config.attrs, config.numAttrs), attributes_.begin());
  for (CUlaunchAttribute& attribute : std::span(attributes_).first(config.numAttrs)) {
    if (lets_overlap(attribute)) attribute.value.programmaticStreamSerializationAllowed = 0;
  }
  config_.attrs = attributes_.data();
}

/// The merge sort of CUB read where the parts to merge begin before it waited for the kernel that
/// writes that (CCCL 2.8.0 until August 2025; github.com/NVIDIA/cccl/issues/5297). Programs with
/// it will live on for long. A fixed one loses the overlap, a few microseconds for each pass.
bool EarlyReaders::is_known(std::string_view name) noexcept {
  return name.find("DeviceMergeSortMergeKernel") != std::string_view::npos;
}

bool EarlyReaders::has(CUfunction function) noexcept {
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15;
  const auto key = reinterpret_cast<std::uintptr_t>(function);
  std::atomic<std::uintptr_t>& place = places_[(key * spread) >> 56];  // 8 bits: `places_count`.
  const std::uintptr_t seen = place.load(std::memory_order_relaxed);
  if ((seen & ~std::uintptr_t{1}) == key) return (seen & 1) != 0;
  const char* const name = name_of_(function);
  if (name == nullptr) return false;
  const bool reads_early = is_known(name);
  place.store(key | (reads_early ? 1 : 0), std::memory_order_relaxed);
  return reads_early;
}

void EarlyReaders::forget() noexcept {
  for (std::atomic<std::uintptr_t>& place : places_) place.store(0, std::memory_order_relaxed);
}

}  // namespace vma::interpose
