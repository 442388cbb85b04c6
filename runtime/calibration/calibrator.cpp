#include "calibration/calibrator.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "calibration/access_kernels.hpp"
#include "calibration/attempt.hpp"
#include "costs/cost_estimates.hpp"
#include "costs/cost_source.hpp"
#include "costs/move_costs.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>

namespace vma {
namespace {

constexpr const char* latency_of = "latency of ";
constexpr int read_tries = 4;                  // The first one is a warm-up.
constexpr std::uint64_t read_passes = 5;       // Of the longer of two reads, at most.
constexpr std::uint64_t read_chunks_most = 4;  // Maximum number of large chunks to read.
constexpr std::uint64_t links = 512;           // Length of the chain used to measure a latency.
// Passes of the shorter of two rings of all GPUs.
constexpr std::uint64_t passes_least = 4, passes_most = 256;
constexpr int launches_fit = 8;  // How often the launches of all GPUs fit into that ring's time.
constexpr std::uint64_t longer = 5;  // How many times as many passes the longer ring has.
constexpr int launches = 16;         // Back to back, so that short gaps between them add up.

/// How much memory each place can provide: at most a quarter of it.
std::uint64_t bytes_to_take(const CalibrateOptions& options, Driver& driver,
                            const Topology& topology, const Ledger& ledger) {
  std::uint64_t bytes = options.bytes_per_place;
  // Much more than a cache of a GPU: else what repeated reads find there counts as its memory.
  if (bytes == 0) bytes = 1 * GiB;
  // The time limit is in the clock of the machine, which does not see how long the computer works
  // for a simulated one; and more bytes tell no more about it.
  if (driver.simulated()) bytes = std::min(bytes, 32 * MiB);
  for (const Place at : topology.places()) {
    const std::uint64_t capacity_bytes = ledger.account(at).capacity_bytes;
    bytes = std::min(bytes, capacity_bytes / 4);
    if (topology.memory_bytes(at) > 0) bytes = std::min(bytes, topology.memory_bytes(at) / 4);
  }
  return bytes;
}

std::string route_name(Place from, Place to) {
  return fmt::format("{}->{}", to_string(from), to_string(to));
}

}  // namespace

Calibrator::Calibrator(Runtime& runtime, Driver& driver, Machinery& machinery,
                       const CalibrateOptions& options)
    : runtime_(runtime),
      driver_(driver),
      machinery_(machinery),
      topology_(machinery.topology),
      clock_(driver.clock()),
      time_limit_(options.time_limit),
      costs_(source_costs(driver, topology_, "off").costs),
      gaps_(estimated_gaps(topology_)),
      peers_{topology_.link_kinds(), {}} {
  // Each place holds a small chunk, as many large chunks as fit, and one further chunk of each size
  // as a target of copies and moves. Unless chunk sizes are capped, that is 7/8 of the bytes.
  const std::uint64_t bytes =
      bytes_to_take(options, driver, topology_, machinery.memory.chunks().ledger());
  const std::uint64_t granule_bytes = topology_.granularity();
  const std::uint64_t chunk_most = largest_chunk_bytes(gpu(0), granule_bytes);
  large_bytes_ = round_down(std::min(bytes * 3 / 8, chunk_most), granule_bytes);
  small_bytes_ = round_down(std::min(bytes / 16, chunk_most / 6), granule_bytes);
  const std::uint64_t spare_bytes = bytes - 2 * small_bytes_ - large_bytes_;
  if (large_bytes_ > 0)
    read_bytes_ = std::min(spare_bytes / large_bytes_, read_chunks_most) * large_bytes_;
  if (small_bytes_ == 0 || options.time_limit.count() <= 0) {
    throw Error(ErrorKind::invalid_argument, "vma::calibrate",
                fmt::format("{} bytes per place and {} ms are too little for a measurement; use at "
                            "least {} bytes, and at most a quarter of each place's capacity",
                            bytes, options.time_limit.count(), 16 * granule_bytes));
  }
}

Calibrator::~Calibrator() {
  free_all();
}

bool Calibrator::attempt(const std::string& what, const std::function<void()>& body) {
  if (clock_.now() > deadline_) {
    estimates_.push_back(what + ": the time limit was reached");
    return false;
  }
  const bool succeeded = vma::attempt(estimates_, what, body);
  successes_ += succeeded ? 1 : 0;
  return succeeded;
}

Calibration Calibrator::run() {
  open_contexts();
  deadline_ = clock_.now() + time_limit_;
  for (const Place at : topology_.places()) {
    attempt("all of " + to_string(at), [&] { allocate(at); });
  }
  machinery_.migrator.await_preparation();  // Its calls of the driver would take time from ours.
  successes_ = 0;
  {
    const Measuring measuring(clock_);  // Other threads carry out moves, and do so too.
    measure_copies();
    measure_accesses();
    measure_peers();
    measure_launches();
  }
  measure_moves();
  free_all();
  if (successes_ == 0) {  // A stored file of estimates would be mistaken for measurements.
    throw Error(ErrorKind::unsupported, "vma::calibrate",
                "nothing could be measured: " + estimates_.front());
  }
  Calibration calibration;
  calibration.places = topology_.places();
  costs_.rank();
  calibration.costs = std::move(costs_);
  calibration.gaps = std::move(gaps_);
  calibration.peers = std::move(peers_);
  calibration.estimates = std::move(estimates_);
  return calibration;
}

/// Done first, because it is slow and must not affect any measurement. Errors are dropped here: the
/// measurement that needs the context fails again and names it.
void Calibrator::open_contexts() {
  for (const DeviceId device : topology_.devices()) {
    const Place at = gpu(index(device));
    attempt("kernels of " + to_string(at), [&] { streams_[at] = runtime_.make_stream(at); });
  }
  for (const Place from : topology_.places()) {
    for (const Place to : topology_.places()) {
      attempt("copies " + route_name(from, to),
              [&] { machinery_.engine.prepare(from, to, 1, CopyUnder::nothing); });
    }
  }
  estimates_.clear();
  successes_ = 0;
}

void Calibrator::allocate(Place at) {
  // An alloc that finds no room evicts other allocations; a calibration uses only free memory.
  machinery_.memory.chunks().require_room(at, small_bytes_ + read_bytes_, "vma::calibrate");
  AllocOptions options;
  options.tag = "calibration";
  Scratch& scratch = scratch_[at];
  options.chunk_bytes = small_bytes_;
  scratch.small = static_cast<std::byte*>(runtime_.alloc(small_bytes_, at, options));
  options.chunk_bytes = large_bytes_;
  scratch.large = static_cast<std::byte*>(runtime_.alloc(read_bytes_, at, options));
}

/// Unlike `vma::free`, does not wait for the program's work.
void Calibrator::free_all() noexcept {
  const auto refused = [](const char* what, const std::exception& error) {
    log(LogLevel::warn, "calibration could not release {}: {}", what, error.what());
  };
  for (auto& [at, scratch] : scratch_) {
    for (std::byte* pointer : {scratch.small, scratch.large}) {
      if (pointer == nullptr) continue;
      try {
        if (streams_.empty()) {
          runtime_.free(pointer);
        } else {
          runtime_.free_async(pointer, streams_.begin()->second);
        }
      } catch (const std::exception& error) {
        refused("memory", error);
      }
    }
  }
  scratch_.clear();
  for (const auto& [at, stream] : streams_) {
    try {
      runtime_.destroy_stream(stream);
    } catch (const std::exception& error) {
      refused("a stream", error);
    }
  }
  streams_.clear();
}

std::byte* Calibrator::scratch(Place at, bool large) const {
  const auto found = scratch_.find(at);
  std::byte* pointer = found == scratch_.end() ? nullptr
                       : large                 ? found->second.large
                                               : found->second.small;
  if (pointer != nullptr) return pointer;
  throw Error(ErrorKind::out_of_memory, "vma::calibrate",
              "no memory could be allocated at " + to_string(at));
}

const Chunk& Calibrator::chunk_of(std::byte* pointer) const {
  return machinery_.memory.require(pointer, "vma::calibrate")->chunk(0);
}

// --- Copies

Time Calibrator::copy_time(Place from, Place to, bool large) {
  Memory& memory = machinery_.memory;
  const Chunk& source = chunk_of(scratch(from, large));
  Chunk target =
      memory.chunks().obtain(to, source.size_bytes(), ChunkStore::Turn::take, "vma::calibrate");
  Time best = Time::max();
  try {
    memory.chunks().map_staging(source, ChunkStore::Turn::take);
    memory.chunks().map_staging(target, ChunkStore::Turn::take);
    for (int attempt = 0; attempt < read_tries; ++attempt) {
      const TimePoint start = clock_.now();
      machinery_.engine.wait(machinery_.engine.enqueue(source, target, CopyUnder::nothing));
      best = std::min(best, clock_.now() - start);
    }
  } catch (...) {
    memory.chunks().retire(std::move(target));
    throw;
  }
  memory.chunks().retire(std::move(target));
  return best;
}

double Calibrator::copy_rate(Place from, Place to) {
  machinery_.engine.prepare(from, to, 1, CopyUnder::nothing);
  const Time small = copy_time(from, to, false), large = copy_time(from, to, true);
  if (large > small) {
    return static_cast<double>(large_bytes_ - small_bytes_) / in_seconds(large - small);
  }
  throw Error(ErrorKind::driver_failure, "vma::calibrate", "more bytes did not take longer");
}

void Calibrator::measure_copies() {
  for (const Place from : topology_.places()) {
    for (const Place to : topology_.places()) {
      // Nothing moves on that route.
      if (from == to && from.kind == Place::Kind::host) continue;
      attempt("copies " + route_name(from, to), [&] {
        costs_.copy_rate(place_of(topology_, from), place_of(topology_, to)) = copy_rate(from, to);
      });
    }
  }
}

// --- Accesses

void Calibrator::launch_read(Place device, Place at, std::uint64_t count) {
  const int multiprocessors = topology_.info(DeviceId{device.ordinal}).multiprocessors;
  vma::launch_read(runtime_, streams_.at(device), read_blocks(multiprocessors), scratch(at, true),
                   read_bytes_, count);
}

Time Calibrator::read_time(Place device, Place at, std::uint64_t count) {
  const TimePoint start = clock_.now();
  launch_read(device, at, count);
  runtime_.synchronize(streams_.at(device));
  return clock_.now() - start;
}

double Calibrator::access_rate(Place device, Place at) {
  // Two passes over much memory take long enough, and five over all links too long.
  constexpr std::uint64_t much_bytes = 256 * MiB;
  const std::uint64_t passes = read_bytes_ >= much_bytes ? 2 : read_passes;
  Time once = Time::max(), often = Time::max();
  for (int attempt = 0; attempt < read_tries; ++attempt) {
    once = std::min(once, read_time(device, at, 1));
    often = std::min(often, read_time(device, at, passes));
  }
  if (often > once) {
    return static_cast<double>((passes - 1) * read_bytes_) / in_seconds(often - once);
  }
  throw Error(ErrorKind::driver_failure, "vma::calibrate", "more passes did not take longer");
}

/// Writes a ring of links through the first quarter of the range, in an order that a prefetcher
/// cannot predict. A read of the whole range evicts that quarter from any cache smaller than the
/// other three.
void Calibrator::write_chain(std::byte* data) {
  constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
  const std::uint64_t stride = large_bytes_ / 4 / links / word_bytes;
  std::vector<std::uint64_t> order(links);
  std::iota(order.begin(), order.end(), 0);
  std::minstd_rand random(1);
  std::shuffle(order.begin() + 1, order.end(), random);
  for (std::size_t i = 0; i < links; ++i) {
    const std::uint64_t next = order[(i + 1) % links] * stride;
    runtime_.write(data + order[i] * stride * word_bytes, std::as_bytes(std::span(&next, 1)));
  }
}

Time Calibrator::access_latency(Place device, Place at) {
  std::byte* data = scratch(at, true);
  const auto chase = [&](std::uint64_t steps) {
    read_time(device, at, 1);  // Evicts the chain from the caches.
    const Stream stream = streams_.at(device);
    const TimePoint start = clock_.now();
    runtime_.launch(stream, access_chase_kernel(), {1}, {1},
                    KernelArguments::of(data, steps, data));
    runtime_.synchronize(stream);
    return clock_.now() - start;
  };
  Time once = Time::max(), often = Time::max();
  for (int attempt = 0; attempt < read_tries; ++attempt) {
    once = std::min(once, chase(1));
    often = std::min(often, chase(links));
  }
  const Time latency = (often - once) / (links - 1);
  constexpr std::chrono::nanoseconds least(10);  // No memory is faster.
  if (latency >= least) return latency;
  throw Error(ErrorKind::unsupported, "vma::calibrate", "loads take no time here");
}

void Calibrator::measure_accesses(DeviceId device, Place at, bool chained) {
  if (!topology_.reaches(device, at)) return;
  const Place who = gpu(index(device));
  const PlaceId row = place_of(topology_, who), column = place_of(topology_, at);
  const std::string pair = fmt::format("{} at {}", to_string(who), to_string(at));
  attempt("reads of " + pair, [&] { costs_.access_rate(row, column) = access_rate(who, at); });
  if (!chained) return;
  attempt(latency_of + pair, [&] { costs_.access_latency(row, column) = access_latency(who, at); });
}

void Calibrator::measure_accesses() {
  for (const Place at : topology_.places()) {
    const bool chained = attempt(latency_of + std::string("all at ") + to_string(at),
                                 [&] { write_chain(scratch(at, true)); });
    for (const DeviceId device : topology_.devices()) measure_accesses(device, at, chained);
  }
  if (!driver_.simulated()) return;
  // Simulated kernels take only the time of their bytes, so one line replaces all of these.
  std::erase_if(estimates_, [](const std::string& it) { return it.starts_with(latency_of); });
  estimates_.push_back("latencies: the simulator has none");
}

// --- The combined rate of a GPU's links in both directions: all GPUs read each other in a ring

/// Each GPU reads the next one's memory `count` times; the last GPU reads the first one's.
Calibrator::RingTimes Calibrator::ring_times(std::uint64_t count) {
  const std::vector<DeviceId>& devices = topology_.devices();
  RingTimes times;
  const TimePoint start = clock_.now();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId next = devices[(i + 1) % devices.size()];
    launch_read(gpu(index(devices[i])), gpu(index(next)), count);
  }
  times.launched = clock_.now() - start;
  for (const DeviceId device : devices) runtime_.synchronize(streams_.at(gpu(index(device))));
  times.ended = clock_.now() - start;
  return times;
}

/// Both rings start with staggered launches and end with one GPU finishing last. During the
/// additional time of the longer one, all GPUs read.
double Calibrator::both_ways_rate() {
  Time launched = Time::max(), pass = Time::max();
  for (int attempt = 0; attempt < read_tries; ++attempt) {
    const RingTimes times = ring_times(passes_least);
    launched = std::min(launched, times.launched);
    pass = std::min(pass, times.ended / static_cast<Time::rep>(passes_least));
  }
  const auto fitting =
      static_cast<std::uint64_t>(launches_fit * launched / std::max(pass, Time(1)));
  if (fitting > passes_most) {
    throw Error(ErrorKind::unsupported, "vma::calibrate", "launches take longer than the reads");
  }
  const std::uint64_t count = std::max(passes_least, fitting);
  Time few = Time::max(), many = Time::max();
  for (int attempt = 0; attempt < read_tries; ++attempt) {
    few = std::min(few, ring_times(count).ended);
    many = std::min(many, ring_times(longer * count).ended);
  }
  if (many <= few) {
    throw Error(ErrorKind::driver_failure, "vma::calibrate", "more passes did not take longer");
  }
  const auto bytes = static_cast<double>((longer - 1) * count * read_bytes_);
  const double seconds = in_seconds(many - few);
  return 2 * bytes / seconds;  // As many bytes come in as go out.
}

void Calibrator::measure_peers() {
  const std::vector<std::vector<LinkKind>>& kinds = peers_.kinds;
  for (std::size_t from = 0; from < kinds.size(); ++from) {
    if (kinds[from][(from + 1) % kinds.size()] != LinkKind::nvlink) return;
  }
  attempt("reads in a ring of all GPUs",
          [&] { peers_.both_ways.assign(kinds.size(), both_ways_rate()); });
}

// --- The gap between two kernels on a GPU: the same reads in one launch and in many

/// If `waits`, waits for each read before launching the next.
Time Calibrator::reads_time(Place device, bool waits) {
  const Stream stream = streams_.at(device);
  const TimePoint start = clock_.now();
  for (int launch = 0; launch < launches; ++launch) {
    launch_read(device, device, 1);
    if (waits) runtime_.synchronize(stream);
  }
  if (!waits) runtime_.synchronize(stream);
  return clock_.now() - start;
}

void Calibrator::measure_launches(Place device) {
  Time once = Time::max(), chained = Time::max(), waited = Time::max();
  for (int attempt = 0; attempt < read_tries; ++attempt) {
    once = std::min(once, read_time(device, device, launches));
    chained = std::min(chained, reads_time(device, false));
    waited = std::min(waited, reads_time(device, true));
  }
  if (chained <= once || waited < chained)
    throw Error(ErrorKind::unsupported, "vma::calibrate", "launches take no time here");
  gaps_.kernel.at(index(place_of(topology_, device))) = (chained - once) / (launches - 1);
  gaps_.round.at(index(place_of(topology_, device))) = (waited - once) / (launches - 1);
}

void Calibrator::measure_launches() {
  for (const DeviceId device : topology_.devices()) {
    const Place at = gpu(index(device));
    attempt("gaps between kernels of " + to_string(at), [&] { measure_launches(at); });
  }
}

// --- Moves

/// Moves the first chunk of the allocation.
void Calibrator::move(std::byte* pointer, Place to, MoveTimes* times) {
  MigrateOptions options;
  options.nothing_runs = true;  // Only this code knows the pointer.
  const MigrationReport report =
      runtime_.migrate(pointer, 0, chunk_of(pointer).size_bytes(), to, options);
  if (times == nullptr) return;
  times->move = std::min(times->move, move_time(report));
  times->dark =
      std::min(times->dark, report.phases.unmap + report.phases.map + report.phases.grant);
}

void Calibrator::take_moves(Place from, Place to, const MoveTimes& small, const MoveTimes& large) {
  const PlaceId source = place_of(topology_, from), target = place_of(topology_, to);
  set_move_costs(costs_, source, target, {small_bytes_, small.move, small.dark},
                 {large_bytes_, large.move, large.dark},
                 settle_per_byte(costs_, topology_, source, target));
}

void Calibrator::measure_moves(Place near, Place far) {
  std::array<MoveTimes, 2> there, back;  // Small, large.
  for (const bool large : {false, true}) {
    std::byte* pointer = scratch(near, large);
    for (int attempt = 0; attempt < read_tries; ++attempt) {
      // The first attempt creates the target's chunk; later ones find it in the cache.
      const bool warm = attempt > 0;
      move(pointer, far, warm ? &there[large] : nullptr);
      move(pointer, near, warm ? &back[large] : nullptr);
    }
  }
  take_moves(near, far, there[0], there[1]);
  take_moves(far, near, back[0], back[1]);
}

void Calibrator::measure_moves() {
  const std::vector<Place>& places = topology_.places();
  for (std::size_t near = 0; near < places.size(); ++near) {
    for (std::size_t far = near + 1; far < places.size(); ++far) {
      attempt("moves " + route_name(places[near], places[far]) + " and back",
              [&] { measure_moves(places[near], places[far]); });
    }
  }
}

}  // namespace vma
