#include "tools/vmart-lab/lab_commands.hpp"

#include "base/units.hpp"
#include "costs/calibration_file.hpp"
#include "lab/fidelity/recorded_machine.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "lab/replay/replay_report.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

struct Checked {
  std::string file;
  RecordedRun run;
  std::optional<Time> pauses;  // Of all GPUs, if the program is replayed with them.
  ReplayReport report;
  std::vector<Foreseen> figures;
};

Time time_of(double ms, double least, std::string_view option) {
  return milliseconds_of(ms, least, 1e9, option, "vmart-lab check");
}

PredictOptions options_of(const CheckCommand& command) {
  PredictOptions options;
  options.policy = command.policy;
  options.pacing = command.timed ? Pacing::timed : Pacing::at_once;
  options.rounds = command.rounds;
  options.ahead = command.ahead;
  if (command.half_life_ms) options.half_life = time_of(*command.half_life_ms, 1, "--half-life");
  if (command.stall_budget_ms)
    options.stall_budget = time_of(*command.stall_budget_ms, 0, "--stall-budget");
  return options;
}

/// The pauses that the command asks for, if any.
std::optional<ProgramPauses> pauses_of(const CheckCommand& command, const RecordedRun& run,
                                       const std::optional<Calibration>& calibration) {
  if (command.program.empty()) {
    if (!command.pauses) return std::nullopt;
    return ProgramPauses(run, recorded_machine(run.header, calibration));
  }
  RecordedRun program;
  read_run(command.program, command.bad_lines_max, program);
  return ProgramPauses(program, recorded_machine(program.header, calibration));
}

void check(const CheckCommand& command, const std::optional<Calibration>& calibration,
           Checked& checked) {
  PredictOptions options = options_of(command);
  const double bar = command.within.empty() ? 0 : command.within.front() / 100;
  const double stall_bar = command.within.empty() ? 0 : command.within.back() / 100;
  read_run(checked.file, command.bad_lines_max, checked.run);
  try {
    const ReplayMachine machine = recorded_machine(checked.run.header, calibration);
    const std::optional<ProgramPauses> pauses = pauses_of(command, checked.run, calibration);
    if (pauses) {
      checked.pauses = pauses->total();
      options.pauses = &*pauses;
    }
    checked.report = predict(checked.run, machine, options);
  } catch (const Error& error) {
    throw Error(error.kind(), "vmart-lab check", fmt::format("{}: {}", checked.file, error.what()));
  }
  checked.figures = compare(checked.run.facts, checked.report, options.pacing, bar, stall_bar);
}

std::string percent(const std::optional<double>& error) {
  return error ? fmt::format("{:+.1f} %", *error * 100) : "-";
}

void print(const Checked& checked) {
  const RecordedFacts& facts = checked.run.facts;
  fmt::print("{}: {}\n", checked.file, checked.run.header.machine);
  fmt::print("{} accesses of {:.1f} GiB in {:.3f} s under {}\n", facts.accesses, facts.bytes / GiB,
             facts.seconds(), fmt::join(facts.policies, ", then "));
  fmt::print("{} moves of {:.3f} GiB, {} that failed; the program moved {} chunks\n", facts.moves,
             static_cast<double>(facts.bytes_moved) / GiB, facts.moves_failed, facts.program_moves);
  for (const auto& [route, bytes] : facts.bytes_by_route)
    fmt::print("  {:>16} {:12.3f} GiB\n", route, static_cast<double>(bytes) / GiB);
  if (facts.records_lost > 0) fmt::print("{} records are missing from it\n", facts.records_lost);
  if (checked.run.bad_records > 0)
    fmt::print("{} bad records were skipped\n", checked.run.bad_records);
  if (facts.samples > 0)
    fmt::print("{} uses are samples that stand for several, each replayed once\n", facts.samples);
  if (facts.policies.size() > 1)
    fmt::print("the policy changed during the recording; the replay uses one\n");
  if (checked.pauses)
    fmt::print("its GPUs pause for {:.3f} s between accesses\n", in_seconds(*checked.pauses));
  fmt::print("\n{:<20} {:>18} {:>18} {:>10}\n", "", "recorded", "predicted", "error");
  for (const Foreseen& figure : checked.figures) {
    fmt::print("{:<20} {:>18.6g} {:>18.6g} {:>10}{}\n", figure.name, figure.recorded,
               figure.predicted, percent(figure.error()),
               figure.within() ? "" : fmt::format("  beyond {:.0f} %", figure.bar * 100));
  }
  fmt::print("\n");
}

boost::json::object to_json(const CheckCommand& command, const Checked& checked) {
  const RecordedFacts& facts = checked.run.facts;
  boost::json::object figures, routes;
  for (const Foreseen& figure : checked.figures) {
    const std::optional<double> error = figure.error();
    boost::json::object& one = figures[figure.key].emplace_object();
    one = {{"recorded", figure.recorded}, {"predicted", figure.predicted}};
    one["error"] = error ? boost::json::value(*error) : boost::json::value();
  }
  for (const auto& [route, bytes] : facts.bytes_by_route) routes[route] = bytes;
  boost::json::array policies;
  for (const std::string& policy : facts.policies) policies.emplace_back(policy);
  return {{"recording", checked.file},
          {"machine", checked.run.header.machine},
          {"calibration", command.calibration},
          {"policy", command.policy},
          {"policies_recorded", std::move(policies)},
          {"pacing", command.timed ? "timed" : "at_once"},
          {"rounds", command.rounds},
          {"program", command.program},
          {"pauses_s",
           checked.pauses ? boost::json::value(in_seconds(*checked.pauses)) : boost::json::value()},
          {"figures", std::move(figures)},
          {"bytes_by_route_recorded", std::move(routes)},
          {"moves_failed", facts.moves_failed},
          {"program_moves", facts.program_moves},
          {"program_bytes_moved", facts.program_bytes_moved},
          {"records_lost", facts.records_lost},
          {"bad_records", checked.run.bad_records},
          {"predicted", vma::to_json(checked.report)}};
}

}  // namespace

int run_check(const CheckCommand& command) {
  if (command.within.size() > 2) {
    throw Error(ErrorKind::invalid_argument, "vmart-lab check",
                "--within takes one percentage, or one of time and bytes and one of stalls");
  }
  if (std::ranges::any_of(command.within, [](double bar) { return !(bar > 0); })) {
    throw Error(ErrorKind::invalid_argument, "vmart-lab check",
                "--within takes percentages above 0");
  }
  if (command.timed && (command.pauses || !command.program.empty())) {
    throw Error(ErrorKind::invalid_argument, "vmart-lab check",
                "--timed has the recorded times, and no --pauses between accesses");
  }
  std::optional<Calibration> calibration;
  if (!command.calibration.empty()) calibration = read_calibration(command.calibration);
  bool within = true;
  boost::json::array all;
  for (const std::string& file : command.recordings) {
    Checked checked;
    checked.file = file;
    check(command, calibration, checked);
    within = std::ranges::all_of(checked.figures, &Foreseen::within) && within;
    if (command.json) {
      all.emplace_back(to_json(command, checked));
    } else {
      print(checked);
    }
  }
  if (command.json) fmt::print("{}\n", boost::json::serialize(all));
  return within ? 0 : 1;
}

}  // namespace vma
