#include "lab/bounds/trace_blocks.hpp"

#include <algorithm>

namespace vma {
namespace {

/// A stretch does not wait for devices with less than 1 / `patience` of an equal share of accesses.
constexpr std::uint64_t patience = 4;

}  // namespace

TraceBlocks::TraceBlocks(std::size_t devices, std::size_t late_max)
    : late_max_(late_max),
      stretch_max_(std::max<std::uint64_t>(1, patience * late_max * devices)),
      devices_(devices) {}

void TraceBlocks::came(std::size_t number) {
  if (in_stretch_ == 0) begin_stretch();
  Device& device = devices_[number];
  ++device.came;
  ++in_stretch_;
  if (device.awaited && device.came - device.before >= late_max_) {
    device.awaited = false;
    --missing_;
  }
  if (missing_ > 0 && in_stretch_ < stretch_max_) return;
  in_stretch_ = 0;
  ++stretches_;
}

/// A stretch lasts until the accesses of the previous one have begun.
void TraceBlocks::begin_stretch() {
  missing_ = 0;
  for (Device& device : devices_) {
    device.awaited = late_max_ > 0 && device.came > device.before;
    device.before = device.came;
    missing_ += device.awaited ? 1 : 0;
  }
}

}  // namespace vma
