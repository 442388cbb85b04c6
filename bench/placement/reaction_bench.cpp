// Where the time between a change of use and its effect goes: the load of `placement/drift`, and
// hot sets that alternate, through the decision path of the runtime in virtual time, with a model
// of the program and of the migrator (tests/support/reaction/). Needs no GPU; the same inputs give
// the same output. It predicts, and measures nothing.
//
//     reaction_bench [--machine=h200x4] [--calibration=FILE] [--policy=cost_benefit] [--phases=4]
//                    [--phase-ms=6000] [--alternate=0] [--half-life-ms=1000] [--warm-ms=20000]
//                    [--chunk-mib=0] [--stall-ahead-ms=4000] [--dry-run=0] [--jitter-percent=0]
//
// With --alternate=1, the load goes back and forth between the first two phases. --chunk-mib=0
// leaves 16 chunks a block. With --dry-run=1, nothing moves. With jitter, each phase is longer or
// shorter by at most that share, the same in each run.

#include "bench/placement/assignments.hpp"
#include "bench/placement/drift_load.hpp"
#include "costs/calibration_file.hpp"
#include "lab/fidelity/recorded_machine.hpp"
#include "lab/policies/lab_policies.hpp"
#include "machine/machine_file.hpp"
#include "support/reaction/reaction_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

using Flags = std::map<std::string, std::string>;

Flags parse_flags(int argc, char** argv) {
  Flags flags = {{"machine", "h200x4"},      {"calibration", ""},      {"policy", "cost_benefit"},
                 {"phase-ms", "6000"},       {"phases", "4"},          {"alternate", "0"},
                 {"warm-ms", "20000"},       {"half-life-ms", "1000"}, {"chunk-mib", "0"},
                 {"stall-ahead-ms", "4000"}, {"dry-run", "0"},         {"jitter-percent", "0"}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const std::size_t equals = flag.find('=');
    const std::string name = flag.substr(0, equals).substr(std::min<std::size_t>(2, equals));
    if (equals == std::string::npos || !flag.starts_with("--") || !flags.contains(name))
      throw std::invalid_argument("unknown flag " + flag);
    flags[name] = flag.substr(equals + 1);
  }
  return flags;
}

Time ms_of(const Flags& flags, const std::string& name) {
  return std::chrono::milliseconds(std::stoll(flags.at(name)));
}

ReplayMachine machine_of(const Flags& flags) {
  ReplayMachine machine = replay_machine(load_machine(flags.at("machine")));
  if (flags.at("calibration").empty()) return machine;
  return calibrated_machine(std::move(machine), read_calibration(flags.at("calibration")));
}

/// What is run, and how long each phase is.
struct Course {
  DriftLoad load;
  std::vector<Time> begins;  // Of all phases but the first one, and when the last one ends.
  bool alternates = false;

  /// Which phase of the load runs at a time: the first one, until everything is at rest.
  std::size_t at(Time now) const {
    const auto number =
        static_cast<std::size_t>(std::ranges::upper_bound(begins, now) - begins.begin());
    return alternates ? number % 2 : std::min(number, begins.size() - 1);
  }
  Time end() const { return begins.back(); }
};

std::vector<Time> begins_of(const Flags& flags) {
  const double jitter = std::stod(flags.at("jitter-percent")) / 100;
  std::mt19937_64 random(1);
  std::vector<Time> begins = {ms_of(flags, "warm-ms")};
  for (std::size_t i = 0; i < std::stoul(flags.at("phases")); ++i) {
    const double share = static_cast<double>(random() % 2001) / 1000 - 1;
    begins.push_back(begins.back() + std::chrono::duration_cast<Time>(ms_of(flags, "phase-ms") *
                                                                      (1 + jitter * share)));
  }
  return begins;
}

Course course_of(const Flags& flags, std::size_t gpus) {
  Course course;
  course.load = drift_load(gpus, std::uint64_t{16} << 30);
  const std::uint64_t chunk_bytes = std::stoull(flags.at("chunk-mib")) << 20;
  if (chunk_bytes > 0) course.load.chunk_bytes = std::min(chunk_bytes, course.load.block_bytes);
  course.begins = begins_of(flags);
  course.alternates = flags.at("alternate") == "1";
  return course;
}

ReactionOptions options_of(const Flags& flags, const Course& course, const ReplayMachine& machine) {
  const Time half_life = ms_of(flags, "half-life-ms");
  ReactionOptions options;
  options.load.gpus = course.load.gpus;
  options.load.blocks = course.load.blocks;
  options.load.chunk_bytes = course.load.chunk_bytes;
  options.load.chunks_a_block = course.load.block_bytes / course.load.chunk_bytes;
  options.load.passes = [load = course.load](std::size_t phase, std::size_t gpu,
                                             std::size_t block) {
    return load.passes(phase, gpu, block);
  };
  options.load.phase_at = [course](Time now) { return course.at(now); };
  options.places = machine.places;
  options.costs = machine.costs;
  options.planner.stall_ahead = ms_of(flags, "stall-ahead-ms");
  options.dry_run = flags.at("dry-run") == "1";
  options.heat.half_life_short = half_life;
  options.heat.half_life_long = half_life * 10;
  for (std::size_t block = 0; block < course.load.blocks; ++block)
    options.homes.push_back(PlaceId{static_cast<std::uint8_t>(course.load.first_touch(block))});
  return options;
}

/// What the best static placement of a phase reads per second.
double best_rate(const Course& course, std::size_t phase, const MachineCosts& costs) {
  const Readings readings = readings_of(course.load, phase);
  const BestAssignments found =
      best_assignments(readings, course.load.gpus, course.load.blocks, costs, 1, phase + 1);
  return foretold_rate(readings, found.best.front(), costs);
}

std::string ms(Time time) {
  if (time == Time::max() || time < Time::zero()) return "-";
  return fmt::format("{:.0f}", std::chrono::duration<double, std::milli>(time).count());
}

void print_phase(const ReactionRun& run, const ReactionPhase& its, Time end, double best) {
  const auto since = [&](Time time) { return time == Time::max() ? time : time - its.begin; };
  const std::optional<Time> recovery =
      run.recovery(its.begin, end, 0.9 * best, std::chrono::milliseconds(50));
  std::string refused;
  for (const auto& [reason, count] : its.refused) refused += fmt::format(" {} {}", reason, count);
  fmt::print(
      "{:>8} {:>6} {:>8} {:>9} {:>9} {:>8} {:>8} {:>9} {:>6} {:>7} {:>6} {:>8.1f} {:>6} {:>5} "
      "{:>7.1f} %{}\n",
      ms(its.begin), ms(since(its.used)), ms(since(its.proposed)), ms(since(its.accepted)),
      ms(its.accepted_last - its.begin), ms(since(its.started)), ms(its.ended - its.begin),
      recovery ? ms(*recovery) : "never", its.moves, its.groups, its.gates,
      std::chrono::duration<double, std::milli>(its.stopped).count(), its.advances,
      its.advances_lost, 100 * run.rate(its.begin, end) / best, refused);
}

int run_all(const Flags& flags) {
  const ReplayMachine machine = machine_of(flags);
  const Course course = course_of(flags, machine.costs.gpus());
  ReactionRun run(options_of(flags, course, machine), lab_policies().make(flags.at("policy")));
  run.run_until(course.end());
  fmt::print("{} on {}, phases of {} ms; times in ms since the change\n", flags.at("policy"),
             machine.name, flags.at("phase-ms"));
  fmt::print(
      "{:>8} {:>6} {:>8} {:>9} {:>9} {:>8} {:>8} {:>9} {:>6} {:>7} {:>6} {:>8} {:>6} {:>5} {:>9} "
      "{}\n",
      "begin", "used", "proposed", "accepted", "..last", "started", "ended", "recovery", "moves",
      "groups", "gates", "stopped", "ahead", "lost", "of best", "refused");
  double read = 0, best = 0;
  for (std::size_t i = 1; i < run.phases().size(); ++i) {
    const ReactionPhase& its = run.phases()[i];
    const Time end = i + 1 < run.phases().size() ? run.phases()[i + 1].begin : course.end();
    const double rate = best_rate(course, course.at(its.begin), machine.costs);
    read += run.rate(its.begin, end);
    best += rate;
    if (i <= 12) print_phase(run, its, end, rate);
  }
  fmt::print("whole run: {:.1f} % of the best static placements; {} moves\n", 100 * read / best,
             run.moves());
  return 0;
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  try {
    return vma::run_all(vma::parse_flags(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "reaction_bench: {}\n", error.what());
    return 1;
  }
}
