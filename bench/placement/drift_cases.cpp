// Hot sets that drift: in each phase, another block of an array is the hottest for each GPU. The
// GPUs work in steps, each of which ends when the slowest GPU has read its share. Measures the
// bytes read per second once the scheduler has settled after each drift, the best static placements
// for that phase, and first touch. The best placements are predicted from the machine's rates and
// then measured: three of them, since predicted differences may be small. Also measures how soon
// after each drift the program is nearly as fast as with the best of them, and what it reads in all
// phases from drift to drift, settled or not.

#include "bench/placement/assignments.hpp"
#include "bench/placement/cases.hpp"
#include "bench/placement/drift_bed.hpp"
#include "bench/placement/looks.hpp"
#include "bench/placement/settling.hpp"
#include "runtime/runtime_parts.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t measured_best = 3;
/// The program has recovered when it reads this share of what it would with the best placement.
constexpr double recovered_share = 0.9;

struct PhaseFigures {
  double best = 0, second = 0, first_touch = 0, scheduler = 0, settled_ms = 0;
  bool every_one = false, settled = false;
  std::vector<Look> looks;                ///< From the drift on.
  double course_bytes = 0, course_s = 0;  ///< Of all of these looks.
};

std::chrono::duration<double> measured() {
  return std::chrono::duration<double>(case_seconds() / 4);
}

/// How long a phase is observed. Settling may take twice as long.
std::chrono::duration<double> course() {
  return std::chrono::duration<double>(case_seconds() * 2);
}

double settled_rate(DriftBed& bed, std::chrono::duration<double> settling) {
  bed.readers->rate(settling);
  return bed.readers->rate(measured());
}

void measure_static(const DriftLoad& load, std::vector<PhaseFigures>& phases) {
  DriftBed bed(load, {});
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

/// From the drift on, for the time of a course. Looks of 50 ms, if cases take three seconds: they
/// contain several steps.
void observe(DriftBed& bed, Settling& settling, PhaseFigures& its) {
  constexpr int looks = 120;
  const Stopwatch watch;
  const auto now_s = [&] { return 1e-6 * to_us(watch.elapsed()); };
  const Clock& clock = parts_of(bed.runtime).driver->clock();
  const TimePoint begin = clock.now();
  const std::uint64_t read = bed.readers->bytes();
  for (int look = 0; look < looks; ++look) {
    const double from = now_s();
    const double rate = bed.readers->rate(course() / looks);
    its.looks.push_back({from, now_s(), rate});
    settling.look();
  }
  its.course_bytes = static_cast<double>(bed.readers->bytes() - read);
  its.course_s = std::chrono::duration<double>(clock.now() - begin).count();
}

SchedulerStats measure_scheduled(const DriftLoad& load, std::vector<PhaseFigures>& phases) {
  RuntimeOptions options;
  options.policy = case_policy();
  DriftBed bed(load, options);
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    PhaseFigures& its = phases[phase];
    Settling settling(bed.runtime);
    bed.readers->set_ranges(shares_of(load, phase));
    observe(bed, settling, its);
    its.settled = settling.await(*bed.readers, course(), 2 * course());
    its.settled_ms = settling.settled_ms();
    its.scheduler = bed.readers->rate(measured());
  }
  return bed.runtime.scheduler_stats();
}

/// What was read from drift to drift, and how soon after each the program had recovered. In the
/// first phase memory is where it should be from the beginning.
void add_courses(const std::vector<PhaseFigures>& phases, Sample& sample) {
  double bytes = 0, best_bytes = 0, most_ms = 0, recovered = 0;
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    const PhaseFigures& its = phases[phase];
    const std::string name = "phase" + std::to_string(phase) + "_";
    const std::optional<double> recovery = recovery_of(its.looks, recovered_share * its.best);
    const double recovery_ms = 1e3 * recovery.value_or(its.looks.back().end);
    sample.counters[name + "recovery_ms"] = recovery_ms;
    sample.counters[name + "recovered_count"] = recovery ? 1 : 0;
    sample.counters[name + "course_share"] = its.course_bytes / (its.best * its.course_s);
    most_ms = std::max(most_ms, recovery_ms);
    recovered += recovery ? 1 : 0;
    bytes += its.course_bytes;
    best_bytes += its.best * its.course_s;
    for (const Look& look : its.looks) sample.series["gb_s"].push_back(1e-9 * look.rate);
  }
  sample.counters["recovery_most_ms"] = most_ms;
  sample.counters["recovered_count"] = recovered;
  sample.counters["whole_run_share"] = bytes / best_bytes;
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
  const DriftLoad load = drift_load(gpus, bytes_max());
  std::vector<PhaseFigures> phases(gpus);
  Sample sample;
  const Stopwatch watch;
  measure_static(load, phases);
  const SchedulerStats stats = measure_scheduled(load, phases);
  sample.wall = watch.elapsed();
  add_phases(phases, sample);
  add_courses(phases, sample);
  sample.counters["every_assignment_count"] = phases.front().every_one ? 1 : 0;
  sample.counters["moves"] = static_cast<double>(stats.moves_done);
  sample.counters["moves_failed_count"] = static_cast<double>(stats.moves_failed);
  return sample;
}

}  // namespace

void register_drift_cases() {
  const std::size_t gpus = drift_gpus();
  if (gpus < 2) return;
  register_samples(
      "placement/drift/gpus" + std::to_string(gpus), [gpus] { return drift(gpus); }, 1);
}

}  // namespace vma
