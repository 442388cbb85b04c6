#include "measuring/chunk_probe.hpp"

#include "base/vectors.hpp"
#include "base/units.hpp"
#include "calibration/attempt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr int chunk_tries = 5;
constexpr std::size_t gpus_max = 128;             // More than any machine has.
constexpr std::uint64_t class_bytes = 512 * MiB;  // Size from which grants are slow on the H200.
constexpr double class_step = 3;  // How many times slower a grant must be to count as slow.

/// One row of a table: the same step of each life.
template <typename Lives>
std::vector<double> row_of(const Lives& lives, std::size_t step) {
  std::vector<double> row;
  for (const auto& life : lives) row.push_back(life[step]);
  return row;
}

void add_row(CostTable& table, const std::vector<std::uint64_t>& sizes, std::size_t gpus,
             std::vector<double> us) {
  if (table.us.empty()) {
    for (const std::uint64_t size : sizes) {
      table.sizes_mib.push_back(static_cast<double>(size) / MiB);
    }
    table.floor_us = 0;  // No floor is needed, because one GPU alone is measured too.
  }
  table.gpus.push_back(static_cast<int>(gpus));
  table.us.push_back(std::move(us));
}

}  // namespace

ChunkProbe::ChunkProbe(Driver& driver, std::uint64_t host_bytes,
                       std::function<void(const std::string&)> say)
    : driver_(driver), clock_(driver.clock()), host_bytes_(host_bytes), say_(std::move(say)) {
  const std::uint64_t granule = driver.granularity(gpu(0));
  const std::uint64_t most = driver.device_info(DeviceId{0}).memory_bytes / 8;
  for (const std::uint64_t size :
       {2 * MiB, 64 * MiB, 256 * MiB, class_bytes - 2 * MiB, class_bytes, 2 * class_bytes}) {
    const std::uint64_t whole = round_up(size, granule);
    if (whole <= most && (sizes_.empty() || whole > sizes_.back())) sizes_.push_back(whole);
  }
  const std::size_t all = readers(gpu(0), gpus_max).size();
  for (std::size_t count = 1; count < all; count *= 2) counts_.push_back(count);
  counts_.push_back(all);
}

ChunkProbe::Readers ChunkProbe::readers(Place at, std::size_t count) const {
  Readers all;
  const auto add = [&](int device) {
    if (all.size() < count) all.push_back({gpu(device)});
  };
  if (at.kind == Place::Kind::gpu) add(at.ordinal);
  for (int device = 0; device < driver_.device_count(); ++device) {
    const bool own = at.kind == Place::Kind::gpu && device == at.ordinal;
    const bool reaches = at.kind == Place::Kind::host ||
                         driver_.can_access_peer(DeviceId{device}, DeviceId{at.ordinal});
    if (!own && reaches) add(device);
  }
  return all;
}

ChunkProbe::Life ChunkProbe::one_life(Place at, std::uint64_t bytes, const Readers& readers) {
  Life life{};
  ProbedChunk chunk(driver_), other(driver_);
  const auto time = [&](Step step, const std::function<void()>& body) {
    life[step] = timed_us(clock_, body);
  };
  time(reserve, [&] { chunk.reserve(bytes); });
  time(create, [&] { chunk.create(at); });
  time(map, [&] { chunk.map(); });
  time(first, [&] { chunk.grant(readers); });
  other.reserve(bytes);
  other.show(chunk);
  time(shadow, [&] { other.grant(readers); });
  other.unmap();
  time(unmap, [&] { chunk.unmap(); });
  chunk.map();
  time(later, [&] { chunk.grant(readers); });
  chunk.unmap();
  time(release, [&] { chunk.release(); });
  time(unreserve, [&] { chunk.unreserve(); });
  return life;
}

ChunkProbe::Life ChunkProbe::life(Place at, std::uint64_t bytes, const Readers& readers) {
  std::array<std::vector<double>, steps> all;
  for (int attempt = 0; attempt < chunk_tries; ++attempt) {
    const Life one = one_life(at, bytes, readers);
    for (std::size_t step = 0; step < steps; ++step) all[step].push_back(one[step]);
  }
  Life middle{};
  for (std::size_t step = 0; step < steps; ++step) middle[step] = median(std::move(all[step]));
  return middle;
}

std::vector<ChunkProbe::Life> ChunkProbe::lives(MeasuredCalls& calls,
                                                const std::vector<std::uint64_t>& sizes,
                                                std::size_t count) {
  std::vector<Life> all;
  for (const std::uint64_t bytes : sizes) {
    calls.require_time(clock_);
    all.push_back(life(gpu(0), bytes, readers(gpu(0), count)));
  }
  return all;
}

void ChunkProbe::keep(std::uint64_t bytes) {
  for (int device = 0; device < driver_.device_count(); ++device) {
    ProbedChunk& keeper = keepers_.emplace_back(driver_);
    keeper.reserve(bytes);
    keeper.create(gpu(device));
    keeper.map();
    keeper.grant(readers(gpu(device), gpus_max));
  }
}

void ChunkProbe::measure(MeasuredCalls& calls) {
  if (sizes_.empty()) {
    calls.failures.emplace_back("calls by size: the GPUs have too little memory");
    return;
  }
  attempt(calls.failures, "grants without keepers", [&] { measure_cold(calls); });
  attempt(calls.failures, "calls beside keepers", [&] {
    keep(driver_.granularity(gpu(0)));
    measure_warm(calls);
  });
  attempt(calls.failures, "calls for host memory", [&] { measure_host(calls); });
  attempt(calls.failures, "grants beside large keepers", [&] { measure_own_class(calls); });
  keepers_.clear();
}

void ChunkProbe::measure_cold(MeasuredCalls& calls) {
  for (const std::size_t count : counts_) {
    if (count == 1 && counts_.size() > 1) continue;  // A GPU always reaches its own mappings.
    say_(fmt::format("grants to {} GPUs, nothing stands between them", count));
    const std::vector<Life> all = lives(calls, sizes_, count);
    add_row(calls.costs.grant_cold, sizes_, count, row_of(all, later));
    calls.took("grant_cold");
  }
}

void ChunkProbe::measure_warm(MeasuredCalls& calls) {
  CostParameters& costs = calls.costs;
  for (const std::size_t count : counts_) {
    say_(fmt::format("the life of a chunk, granted to {} GPUs beside keepers", count));
    const std::vector<Life> all = lives(calls, sizes_, count);
    add_row(costs.unmap, sizes_, count, row_of(all, unmap));
    add_row(costs.grant_first, sizes_, count, row_of(all, first));
    add_row(costs.grant_later, sizes_, count, row_of(all, later));
    add_row(costs.grant_shadow, sizes_, count, row_of(all, shadow));
    for (const char* key : {"unmap", "grant_first", "grant_later", "grant_shadow"}) calls.took(key);
    if (count != counts_.back()) continue;
    add_row(costs.create, sizes_, 1, row_of(all, create));
    add_row(costs.release, sizes_, 1, row_of(all, release));
    costs.reserve_us = median(row_of(all, reserve));
    costs.map_us = median(row_of(all, map));
    costs.unreserve_us = median(row_of(all, unreserve));
    for (const char* key : {"create", "release", "reserve_us", "map_us", "unreserve_us"}) {
      calls.took(key);
    }
  }
}

/// Runs only if large handles are slow to grant, which a keeper of their own size avoids.
void ChunkProbe::measure_own_class(MeasuredCalls& calls) {
  CostParameters& costs = calls.costs;
  const auto large = std::ranges::find(sizes_, class_bytes);
  if (large == sizes_.end() || large == sizes_.begin() || costs.grant_later.us.empty()) return;
  const auto at = static_cast<std::size_t>(large - sizes_.begin());
  const std::vector<double>& widest = costs.grant_later.us.back();
  // Not slow: the size class is 0.
  if (widest[at] < class_step * widest[at - 1]) return calls.took("size_class_mib");
  keep(class_bytes);
  const std::vector<std::uint64_t> sizes(large, sizes_.end());
  for (const std::size_t count : counts_) {
    say_(fmt::format("grants of large chunks to {} GPUs beside large keepers", count));
    const std::vector<Life> all = lives(calls, sizes, count);
    add_row(costs.grant_first_own_class, sizes, count, row_of(all, first));
    add_row(costs.grant_later_own_class, sizes, count, row_of(all, later));
    costs.size_class_bytes = class_bytes;
    calls.took("size_class_mib");
    calls.took("grant_first_own_class");
    calls.took("grant_later_own_class");
  }
}

void ChunkProbe::measure_host(MeasuredCalls& calls) {
  if (driver_.host_node_count() == 0) return;
  say_("host memory");
  const std::uint64_t granule = driver_.granularity(host(0));
  const std::uint64_t small = round_up(2 * MiB, granule);
  const std::uint64_t large = round_down(std::min(256 * MiB, host_bytes_ / 8), granule);
  if (large <= small) {
    calls.failures.emplace_back("calls for host memory: the node has too little");
    return;
  }
  calls.require_time(clock_);
  const Readers all = readers(host(0), gpus_max);
  const Life few = life(host(0), small, all), many = life(host(0), large, all);
  const double mib = static_cast<double>(large - small) / MiB * static_cast<double>(all.size());
  CostParameters& costs = calls.costs;
  costs.host_grant_us_per_mib = std::max(0.0, (many[later] - few[later]) / mib);
  costs.host_unmap_us_per_mib = std::max(0.0, (many[unmap] - few[unmap]) / mib);
  costs.host_create_gb_s = static_cast<double>(large) / (many[create] * 1e3);
  for (const char* key : {"host_grant_us_per_mib", "host_unmap_us_per_mib", "host_create_gb_s"}) {
    calls.took(key);
  }
}

}  // namespace vma
