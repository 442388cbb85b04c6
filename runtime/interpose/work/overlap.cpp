#include "interpose/work/overlap.hpp"

#include <algorithm>
#include <span>

namespace vma::interpose {
namespace {

bool lets_overlap(const CUlaunchAttribute& attribute) noexcept {
  return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
         attribute.value.programmaticStreamSerializationAllowed != 0;
}

}  // namespace

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
