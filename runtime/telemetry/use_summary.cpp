#include "telemetry/use_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace vma {

UseSummary::UseSummary(const Registry& registry, const Topology& topology) : registry_(registry) {
  for (const DeviceId device : topology.devices()) {
    const auto ordinal = static_cast<std::size_t>(index(device));
    has_device_.resize(std::max(has_device_.size(), ordinal + 1));
    has_device_[ordinal] = true;
  }
}

std::size_t UseSummary::KeyHash::operator()(const Key& key) const noexcept {
  const std::uint64_t number = static_cast<std::uint64_t>(key.allocation) << 32 | key.slot;
  const std::uint64_t mixed =
      (number ^ static_cast<std::uint64_t>(index(key.device)) << 56) * 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(mixed ^ mixed >> 32);
}

void UseSummary::clear() noexcept {
  numbers_.clear();
  rows_.clear();
}

void UseSummary::add(std::span<const LoggedUse> uses) {
  bounds_.clear();
  for (const LoggedUse& use : uses) add(use);
}

bool UseSummary::makes_sense(const LoggedUse& use) const {
  // A negative ordinal becomes larger than any valid one.
  const auto ordinal = static_cast<std::size_t>(index(use.device));
  return ordinal < has_device_.size() && has_device_[ordinal] &&
         use.bytes <= std::numeric_limits<std::uint64_t>::max() - to_integer(use.address) &&
         use.passes >= 0 && std::isfinite(use.passes) && use.kind <= UseKind::read_write;
}

void UseSummary::add(const LoggedUse& use) {
  if (!makes_sense(use)) {
    ignored_.bad_uses += use.weight;
    return;
  }
  const double times = static_cast<double>(use.passes) * use.weight;
  const auto found = registry_.find(use.address);
  const Registry::Bounds* range = found ? bounds_of(found->id, use.address) : nullptr;
  if (range == nullptr) {
    ignored_.unknown_uses += use.weight;
    ignored_.unknown_bytes += static_cast<double>(use.bytes) * times;
    return;
  }
  const std::uint64_t offset = use.address - range->begin;
  const std::uint64_t end = offset + std::min(use.bytes, range->size_bytes - offset);
  ignored_.unknown_bytes += static_cast<double>(use.bytes - (end - offset)) * times;
  for (std::uint64_t from = offset; from < end;) {
    const std::uint64_t slot = from / range->slot_bytes;
    const std::uint64_t to = std::min(end, (slot + 1) * range->slot_bytes);
    Row& row = row_of({found->id, static_cast<std::uint32_t>(slot), use.device, range->begin});
    const double bytes = static_cast<double>(to - from) * times;
    if (use.kind != UseKind::write) (use.guessed ? row.guessed_read : row.bytes_read) += bytes;
    if (use.kind != UseKind::read) (use.guessed ? row.guessed_written : row.bytes_written) += bytes;
    const bool earlier = row.earliest == TimePoint(0) || use.at < row.earliest;
    if (use.at != TimePoint(0) && earlier) row.earliest = use.at;
    from = to;
  }
}

/// Null if the allocation is gone, or if its id now belongs to one that does not contain the
/// address.
const Registry::Bounds* UseSummary::bounds_of(AllocationId id, Address address) {
  Registry::Bounds& bounds = bounds_[id];
  if (bounds.contains(address)) return &bounds;
  bounds = registry_.bounds(id).value_or(Registry::Bounds{});
  return bounds.contains(address) ? &bounds : nullptr;
}

UseSummary::Row& UseSummary::row_of(const Key& key) {
  const auto [number, is_new] = numbers_.try_emplace(key, rows_.size());
  if (is_new) {
    Row row;
    row.allocation = key.allocation;
    row.slot = key.slot;
    row.device = key.device;
    row.begin = key.begin;
    try {
      rows_.push_back(row);
    } catch (...) {
      numbers_.erase(number);
      throw;
    }
  }
  return rows_[number->second];
}

}  // namespace vma
