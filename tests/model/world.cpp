#include "model/world.hpp"

#include "support/plays.hpp"
#include "support/test_machines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace vma {
namespace {

std::vector<Place> locations_of(SimDriver& machine) {
  std::vector<Place> places;
  for (int i = 0; i < machine.device_count(); ++i) places.push_back(gpu(i));
  for (int i = 0; i < machine.host_node_count(); ++i) places.push_back(host(i));
  return places;
}

Settings settings_of(const ModelPlan& plan, const Draw& draw) {
  Settings settings;
  settings.capacity_bytes = draw.capacity_bytes;
  settings.cache_bytes_per_gpu = draw.cache_bytes;
  settings.host_cache_bytes = draw.host_cache_bytes;
  settings.own_contexts = draw.own_contexts;
  settings.suspends = plan.suspends();
  settings.pressure_limit = std::chrono::milliseconds(0);  // The model does not make room.
  settings.hold_limit = std::chrono::minutes(2);           // Longer than any computer needs.
  return settings;
}

}  // namespace

World::World(const ModelPlan& plan, SteppedExecutor* stepped)
    : plan_(plan),
      machine_(test_machine(plan.machine), {stepped, plan.seed, 512 << 20, false}),
      draw_(plan, locations_of(machine_)) {
  auto parts = std::make_unique<RuntimeParts>(std::make_unique<PlantedBug>(machine_, plan.bug),
                                              settings_of(plan, draw_));
  leaked_ = parts->machinery->memory.chunks().ledger().leak_count();
  runtime_ = unique_runtime_of(std::move(parts));
}

void World::use_stream(Stream stream) {
  const MutexLock lock(mutex_);
  streams_.push_back(stream);
}

bool World::may_refuse(Place at, std::uint64_t size_bytes, bool cache_counts) {
  const Ledger::Account ledger = memory().chunks().ledger().account(at);
  const Books::Account account = books_.account(at);
  const std::uint64_t used = account.allocated_bytes + account.leaving_bytes + ledger.own_bytes +
                             (cache_counts ? ledger.cached_bytes : 0);
  return size_bytes > ledger.capacity_bytes || used > ledger.capacity_bytes - size_bytes;
}

/// The runtime's threads continue meanwhile.
void World::nap() {
  vma::nap(machine_.clock(), std::chrono::microseconds(100));
}

bool World::agrees() {
  return std::ranges::all_of(topology().places(), [this](Place at) {
    return memory().chunks().ledger().account(at).allocated_bytes ==
           books_.account(at).allocated_bytes;
  });
}

void World::explain_books(const char* what) {
  std::string text = what;
  for (const Place at : topology().places()) {
    const Ledger::Account ledger = memory().chunks().ledger().account(at);
    const Books::Account account = books_.account(at);
    text += fmt::format("; {}: the ledger has {} allocated, {} cached, the model {} and {} leaving",
                        to_string(at), ledger.allocated_bytes, ledger.cached_bytes,
                        account.allocated_bytes, account.leaving_bytes);
  }
  throw Mismatch(text);
}

void World::come_to_rest() {
  constexpr int naps_max = 100'000;
  std::vector<Stream> streams;
  {
    const MutexLock lock(mutex_);
    streams = streams_;
  }
  if (books_.anything_leaving()) {
    for (const Stream stream : streams) runtime_->synchronize(stream);
  }
  for (int naps = 0;; ++naps) {
    memory().chunks().slow_calls().await_empty();
    if (agrees()) break;
    if (!books_.anything_leaving() || naps == naps_max) {
      explain_books("the books differ when all is at rest");
    }
    nap();
  }
  books_.all_left();
}

void World::check() {
  come_to_rest();
  memory().check_invariants();
  const RuntimeStats stats = runtime_->stats();
  if (stats.allocations != static_cast<std::size_t>(allocations) || stats.poisoned != 0 ||
      stats.leaked != 0) {
    throw Mismatch(fmt::format("stats say {} allocations, {} poisoned, {} leaked; the model has {}",
                               stats.allocations, stats.poisoned, stats.leaked,
                               allocations.load()));
  }
  for (const RuntimeStats::PlaceStats& place : stats.places) {
    const auto cap = draw_.capacity_bytes.find(place.at);
    // A GPU has the size in the machine file. Behind `PlantedBug` a host node is that of this
    // computer.
    const std::uint64_t size = place.at.kind == Place::Kind::gpu
                                   ? test_machine(plan_.machine)
                                         .gpus.at(static_cast<std::size_t>(place.at.ordinal))
                                         .memory_bytes
                                   : place.capacity_bytes;
    const std::uint64_t limit =
        cap == draw_.capacity_bytes.end() ? size : std::min(cap->second, size);
    const std::uint64_t used = place.allocated_bytes + place.cached_bytes + place.own_bytes;
    if (place.capacity_bytes != limit || used > limit) {
      throw Mismatch(fmt::format("{} holds {} of {} bytes, and says that its capacity is {}",
                                 to_string(place.at), used, limit, place.capacity_bytes));
    }
  }
}

void World::end() {
  runtime_->shutdown();
  const std::vector<std::string> left = machine_.leaks();
  if (left.empty() && *leaked_ == 0) return;
  throw Mismatch(fmt::format("left behind: {}; counted as leaked: {}", fmt::join(left, ", "),
                             leaked_->load()));
}

void World::fail(const std::string& mismatch) {
  const MutexLock lock(mutex_);
  if (mismatch_.empty()) mismatch_ = mismatch;
  failed_ = true;
}

std::string World::mismatch() const {
  const MutexLock lock(mutex_);
  return mismatch_;
}

}  // namespace vma
