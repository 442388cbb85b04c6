#include "machine/cost_model.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vma {
namespace {

double between(double x, double x0, double x1, double y0, double y1) {
  return x1 == x0 ? y0 : y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

/// Interpolates linearly between the sizes; constant outside them.
double at_size(const std::vector<double>& sizes, const std::vector<double>& row, double size) {
  if (size <= sizes.front()) return row.front();
  if (size >= sizes.back()) return row.back();
  const auto above = std::upper_bound(sizes.begin(), sizes.end(), size) - sizes.begin();
  const auto i = static_cast<std::size_t>(above);
  return between(size, sizes[i - 1], sizes[i], row[i - 1], row[i]);
}

double mib(std::uint64_t size_bytes) {
  return static_cast<double>(size_bytes) / MiB;
}

TimePoint at_bandwidth(std::uint64_t size_bytes, double gb_s) {
  if (gb_s <= 0) return TimePoint::zero();
  return TimePoint(static_cast<TimePoint::rep>(static_cast<double>(size_bytes) / gb_s));
}

bool on_host(Place at) {
  return at.kind == Place::Kind::host;
}

}  // namespace

TimePoint from_microseconds(double us) {
  return TimePoint(static_cast<TimePoint::rep>(us * 1e3));
}

TimePoint look_up(const CostTable& table, std::uint64_t size_bytes, int gpus) {
  if (table.us.empty()) return TimePoint::zero();
  const double size = mib(size_bytes);
  double us = at_size(table.sizes_mib, table.us.front(), size);
  if (table.gpus.size() > 1) {
    std::size_t upper = 1;
    while (upper + 1 < table.gpus.size() && table.gpus[upper] < gpus) ++upper;
    us = between(gpus, table.gpus[upper - 1], table.gpus[upper],
                 at_size(table.sizes_mib, table.us[upper - 1], size),
                 at_size(table.sizes_mib, table.us[upper], size));
  }
  return from_microseconds(std::max(us, table.floor_us));
}

TimePoint CostModel::create(Place at, std::uint64_t size_bytes) const {
  const CostParameters& costs = machine_.costs;
  if (on_host(at) && costs.host_create_gb_s > 0) {
    return at_bandwidth(size_bytes, costs.host_create_gb_s);
  }
  return look_up(costs.create, size_bytes, 1);
}

TimePoint CostModel::release(Place, std::uint64_t size_bytes) const {
  return look_up(machine_.costs.release, size_bytes, 1);
}

TimePoint CostModel::grant(const GrantSituation& grant) const {
  const CostParameters& costs = machine_.costs;
  const TimePoint later = look_up(costs.grant_later, grant.size_bytes, grant.gpus);
  if (on_host(grant.at)) {
    // Granted page by page: the table's value for the smallest chunk, plus a cost per MiB and GPU.
    return look_up(costs.grant_later, 0, grant.gpus) +
           from_microseconds(costs.host_grant_us_per_mib * mib(grant.size_bytes) * grant.gpus);
  }
  if (grant.shown_elsewhere) return look_up(costs.grant_shadow, grant.size_bytes, grant.gpus);
  if (grant.cold_peers > 0) {
    return std::max(later, look_up(costs.grant_cold, grant.size_bytes, grant.cold_peers + 1));
  }
  const bool large = costs.size_class_bytes > 0 && grant.size_bytes >= costs.size_class_bytes;
  if (large && grant.own_class_warm) {
    return look_up(grant.fresh ? costs.grant_first_own_class : costs.grant_later_own_class,
                   grant.size_bytes, grant.gpus);
  }
  if (grant.gpus <= 1) {
    // A sole owner maps no peer, so the size class does not cost it anything either.
    const std::uint64_t small = large ? costs.size_class_bytes - 2 * MiB : grant.size_bytes;
    return look_up(grant.fresh ? costs.grant_first : costs.grant_later, small, 1);
  }
  return look_up(grant.fresh ? costs.grant_first : costs.grant_later, grant.size_bytes, grant.gpus);
}

TimePoint CostModel::unmap(Place at, std::uint64_t size_bytes, int gpus) const {
  const CostParameters& costs = machine_.costs;
  if (!on_host(at)) return look_up(costs.unmap, size_bytes, gpus);
  return look_up(costs.unmap, 0, gpus) +
         from_microseconds(costs.host_unmap_us_per_mib * mib(size_bytes) * gpus);
}

TimePoint CostModel::remap(Place from, Place to, std::uint64_t size_bytes, int gpus) const {
  GrantSituation later;
  later.at = to;
  later.size_bytes = size_bytes;
  later.gpus = gpus;
  return unmap(from, size_bytes, gpus) + from_microseconds(machine_.costs.map_us) + grant(later);
}

double CostModel::bandwidth(Place from, Place to) const {
  const auto f = static_cast<std::size_t>(from.ordinal), t = static_cast<std::size_t>(to.ordinal);
  if (on_host(from) && on_host(to)) return machine_.costs.host_copy_gb_s;
  if (on_host(from)) return machine_.host_links.at(t).at(f).to_gpu_gb_s;
  if (on_host(to)) return machine_.host_links.at(f).at(t).from_gpu_gb_s;
  if (f == t) return machine_.gpus.at(f).local_gb_s;
  return machine_.peer_links.at(f).at(t).gb_s;
}

TimePoint CostModel::copy(Place from, Place to, std::uint64_t size_bytes) const {
  return from_microseconds(machine_.costs.copy_latency_us) +
         at_bandwidth(size_bytes, bandwidth(from, to));
}

}  // namespace vma
