// Hot sets that drift: in each phase, another block of an array is the hottest for each GPU. The
// GPUs work in steps, each of which ends when the slowest GPU has read its share. Measures the
// bytes read per second once the scheduler has settled after each drift, the best static placements
// for that phase, and first touch. The best placements are predicted from the machine's rates and
// then measured: three of them, since predicted differences may be small.

#include "bench/placement/assignments.hpp"
#include "bench/placement/cases.hpp"
#include "bench/placement/drift_load.hpp"
#include "bench/placement/readers.hpp"
#include "bench/placement/settling.hpp"
#include "runtime/runtime_parts.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

namespace vma {
namespace {

constexpr std::size_t gpus_max = 4;
constexpr std::size_t measured_best = 3;

Shares shares_of(const DriftLoad& load, std::size_t phase) {
  Shares shares(load.gpus);
  for (std::size_t reader = 0; reader < load.gpus; ++reader) {
    for (std::size_t block = 0; block < load.blocks; ++block)
      for (std::size_t pass = 0; pass < load.passes(phase, reader, block); ++pass)
        shares[reader].push_back({block * load.block_bytes, load.block_bytes});
  }
  return shares;
}

/// A runtime, the array, initially placed by first touch of the first phase, and its readers.
struct Bed {
  Bed(const DriftLoad& its_load, const RuntimeOptions& options) : load(its_load), runtime(options) {
    gpus = gpus_of(runtime);
    gpus.resize(load.gpus);
    AllocOptions how;
    how.chunk_bytes = load.chunk_bytes;
    data = static_cast<std::byte*>(runtime.alloc(load.bytes(), gpus.front(), how));
    lay(first_touch());
    readers = std::make_unique<Readers>(runtime, data, gpus);
  }
  ~Bed() {
    readers.reset();
    runtime.free(data);
  }

  Assignment first_touch() const {
    Assignment touched(load.blocks);
    for (std::size_t block = 0; block < load.blocks; ++block)
      touched[block] = load.first_touch(block);
    return touched;
  }
  /// Moves the blocks under holds, which stop the readers.
  void lay(const Assignment& assignment) {
    MigrateOptions held;
    held.scope = StopScope::hold;
    for (std::size_t block = 0; block < load.blocks; ++block)
      runtime.migrate(data, block * load.block_bytes, load.block_bytes, gpus[assignment[block]],
                      held);
  }

  const DriftLoad load;
  Runtime runtime;
  std::vector<Location> gpus;
  std::byte* data = nullptr;
  std::unique_ptr<Readers> readers;
};

struct PhaseFigures {
  double best = 0, second = 0, first_touch = 0, scheduler = 0, settled_ms = 0;
  bool every_one = false, settled = false;
};

std::chrono::duration<double> measured() {
  return std::chrono::duration<double>(case_seconds() / 4);
}

/// How long a phase is observed. Settling may take twice as long.
std::chrono::duration<double> course() {
  return std::chrono::duration<double>(case_seconds() * 2);
}

double settled_rate(Bed& bed, std::chrono::duration<double> settling) {
  bed.readers->rate(settling);
  return bed.readers->rate(measured());
}

void measure_static(const DriftLoad& load, std::vector<PhaseFigures>& phases) {
  Bed bed(load, {});
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    bed.readers->set_ranges(shares_of(load, phase));
    bed.lay(bed.first_touch());
    phases[phase].first_touch = settled_rate(bed, measured() / 4);
    const BestAssignments found =
        best_assignments(readings_of(load, phase), load.gpus, load.blocks,
                         parts_of(bed.runtime).machinery->costs, measured_best, phase + 1);
    std::vector<double> rates;
    for (const Assignment& assignment : found.best) {
      bed.lay(assignment);
      rates.push_back(settled_rate(bed, measured() / 4));
    }
    std::ranges::sort(rates, std::greater());
    phases[phase].best = rates.at(0);
    phases[phase].second = rates.at(1);
    phases[phase].every_one = found.every_one;
  }
}

SchedulerStats measure_scheduled(const DriftLoad& load, std::vector<PhaseFigures>& phases,
                                 Sample& sample) {
  RuntimeOptions options;
  options.policy = "cost_benefit";
  Bed bed(load, options);
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    PhaseFigures& its = phases[phase];
    Settling settling(bed.runtime);
    bed.readers->set_ranges(shares_of(load, phase));
    constexpr int looks = 20;  // Number of samples while it settles, for a plot.
    for (int look = 0; look < looks; ++look) {
      sample.series["gb_s"].push_back(1e-9 * bed.readers->rate(course() / looks));
      settling.look();
    }
    its.settled = settling.await(*bed.readers, course(), 2 * course());
    its.settled_ms = settling.settled_ms();
    its.scheduler = bed.readers->rate(measured());
  }
  return bed.runtime.scheduler_stats();
}

void add_phases(const std::vector<PhaseFigures>& phases, Sample& sample) {
  double least = 1e9, settled = 0;
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    const PhaseFigures& its = phases[phase];
    const std::string name = "phase" + std::to_string(phase) + "_";
    sample.counters[name + "scheduler_gb_s"] = its.scheduler * 1e-9;
    sample.counters[name + "best_gb_s"] = its.best * 1e-9;
    sample.counters[name + "second_gb_s"] = its.second * 1e-9;
    sample.counters[name + "first_touch_gb_s"] = its.first_touch * 1e-9;
    sample.counters[name + "of_best_share"] = its.scheduler / its.best;
    sample.counters[name + "settled_ms"] = its.settled_ms;
    sample.counters[name + "settled_count"] = its.settled ? 1 : 0;
    least = std::min(least, its.scheduler / its.best);
    settled += its.settled ? 1 : 0;
  }
  sample.counters["of_best_least_share"] = least;
  sample.counters["settled_count"] = settled;
}

Sample drift(std::size_t gpus) {
  const DriftLoad load = drift_load(gpus, bytes_max(0));
  std::vector<PhaseFigures> phases(gpus);
  Sample sample;
  const Stopwatch watch;
  measure_static(load, phases);
  const SchedulerStats stats = measure_scheduled(load, phases, sample);
  sample.wall = watch.elapsed();
  add_phases(phases, sample);
  sample.counters["every_assignment_count"] = phases.front().every_one ? 1 : 0;
  sample.counters["moves"] = static_cast<double>(stats.moves_done);
  sample.counters["moves_failed_count"] = static_cast<double>(stats.moves_failed);
  return sample;
}

}  // namespace

void register_drift_cases() {
  std::size_t gpus = 0;
  {
    Runtime runtime;
    gpus = std::min(gpus_max, gpus_of(runtime).size());
  }
  if (gpus < 2) return;  // With one GPU, nothing can drift.
  register_samples(
      "placement/drift/gpus" + std::to_string(gpus), [gpus] { return drift(gpus); }, 1);
}

}  // namespace vma
