#include "tools/lab_bounds.hpp"
#include "tools/lab_check.hpp"
#include "tools/lab_machines.hpp"
#include "tools/lab_probe.hpp"
#include "tools/lab_replay.hpp"
#include "tools/lab_run.hpp"
#include "tools/lab_traces.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int failure = 1;
constexpr int wrong_usage = 2;

void add_bad_lines(CLI::App& command, std::uint64_t& most) {
  command.add_option("--bad-lines", most, "how many bad lines are left out before it is an error")
      ->capture_default_str();
}

void add_seed(CLI::App& command, std::uint64_t& seed) {
  command.add_option("--seed", seed, "what is drawn follows from it")->capture_default_str();
}

void add_parameters(CLI::App& command, std::vector<std::string>& values) {
  command.add_option("--param", values, "name=value; once for each")->allow_extra_args(false);
}

void add_convert(CLI::App& app, vma::ConvertOptions& options, std::function<int()>& chosen) {
  CLI::App& convert = *app.add_subcommand("convert", "makes a trace of somebody's file");
  convert.add_option("format", options.format, "see below")->required();
  convert.add_option("in", options.input, "also compressed by gzip; - is the standard input")
      ->required();
  convert.add_option("out", options.output, "NAME.vtrace (binary) or NAME.jsonl")->required();
  add_parameters(convert, options.values);
  add_seed(convert, options.seed);
  add_bad_lines(convert, options.bad_lines_max);
  convert.footer(vma::describe_formats());
  convert.callback([&] { chosen = [&] { return vma::run_convert(options); }; });
}

void add_generate(CLI::App& app, vma::GenerateOptions& options, std::function<int()>& chosen) {
  CLI::App& generate = *app.add_subcommand("generate", "makes a synthetic trace");
  generate.add_option("name", options.name, "see below")->required();
  generate.add_option("out", options.output, "NAME.vtrace (binary) or NAME.jsonl")->required();
  add_parameters(generate, options.values);
  add_seed(generate, options.seed);
  generate.footer(vma::describe_generators());
  generate.callback([&] { chosen = [&] { return vma::run_generate(options); }; });
}

void add_trace(CLI::App& app, vma::TraceCommand& command, std::function<int()>& chosen) {
  CLI::App& trace = *app.add_subcommand("trace", "says what is in a trace, and what is wrong");
  trace.add_option("file", command.path)->required();
  add_bad_lines(trace, command.bad_lines_max);
  trace.callback([&] { chosen = [&] { return vma::run_trace(command); }; });
}

/// A trace, and where it runs.
void add_setting(CLI::App& app, vma::ReplayCommand& command) {
  app.add_option("trace", command.trace)->required();
  app.add_option("--machine", command.machine, "a name or a file")->capture_default_str();
  app.add_option("--router", command.router, "of accesses that name no device")
      ->capture_default_str();
  app.add_option("--hbm", command.hbm_gib, "GiB of each GPU, instead of the machine's");
  app.add_option("--host", command.host_gib, "GiB of each host node");
  app.add_option("--chunk", command.chunk_mib, "MiB, where the trace does not say")
      ->capture_default_str();
  add_bad_lines(app, command.bad_lines_max);
  app.add_flag("--json", command.json);
}

void add_bounds(CLI::App& app, vma::BoundsCommand& command, std::function<int()>& chosen) {
  CLI::App& bounds = *app.add_subcommand("bounds", "what no policy can stay under");
  command.setting.router = "hash";
  add_setting(bounds, command.setting);
  bounds.add_flag("--on-time", command.on_time, "where no device ever falls behind the trace");
  bounds.callback([&] { chosen = [&] { return vma::run_bounds(command); }; });
}

void add_replay(CLI::App& app, vma::ReplayCommand& command, std::function<int()>& chosen) {
  CLI::App& replay = *app.add_subcommand("replay", "what a policy makes of a trace on a machine");
  add_setting(replay, command);
  replay.add_option("--policy", command.policy, "as VMART_POLICY has it")->capture_default_str();
  replay.add_option("--pacing", command.pacing, "timed or at_once")->capture_default_str();
  replay.add_option("--calibration", command.calibration,
                    "what `vmart calibrate --json` printed: its costs, instead of the machine's");
  replay
      .add_option("--stall-budget", command.stall_budget_ms,
                  "ms of a second that devices may stand at gates; 0: no limit")
      ->capture_default_str();
  replay
      .add_option("--ahead", command.ahead_ms,
                  "ms of work that a program launches before it waits for it; 0: one kernel")
      ->capture_default_str();
  replay.add_option("--half-life", command.half_life_ms, "ms after which a use counts half; 1000");
  replay.callback([&] { chosen = [&] { return vma::run_replay(command); }; });
}

struct MachineCommand {
  std::vector<std::string> files;
  std::string name;
  vma::ProbeCommand probe;
};

void add_machine(CLI::App& app, MachineCommand& command, std::function<int()>& chosen) {
  CLI::App& machine = *app.add_subcommand("machine", "the machines that traces are replayed on");
  machine.require_subcommand(1);
  CLI::App& check = *machine.add_subcommand("check", "says what is wrong with machine files");
  check.add_option("file", command.files, "names or files")->required();
  check.callback([&] { chosen = [&] { return vma::run_machine_check(command.files); }; });
  CLI::App& list = *machine.add_subcommand("list", "those that there are, and what they rest on");
  list.callback([&] { chosen = [] { return vma::run_machine_list(); }; });
  CLI::App& show = *machine.add_subcommand("show", "what a replay on one costs, route by route");
  show.add_option("machine", command.name, "a name or a file")->required();
  show.callback([&] { chosen = [&] { return vma::run_machine_show(command.name); }; });
  CLI::App& probe = *machine.add_subcommand("probe", "writes the file of the machine it stands on");
  probe.add_option("out", command.probe.output, "a machine file to be written")->required();
  probe.add_option("--name", command.probe.name, "of the machine");
  probe.add_option("--driver", command.probe.driver, "as VMART_DRIVER has it");
  probe.callback([&] { chosen = [&] { return vma::run_probe(command.probe); }; });
}

void add_run(CLI::App& app, vma::RunCommand& command, std::function<int()>& chosen) {
  CLI::App& run = *app.add_subcommand("run", "all cells of an experiment's file");
  run.add_option("experiment", command.experiment, "a JSON file: docs/experiments.md")->required();
  run.add_option("--out", command.folder, "where the results go");
  run.add_option("--jobs", command.jobs, "cells at a time; else as many as there are processors")
      ->check(CLI::Range(1, 4096));
  run.add_option("--only", command.only, "this cell; once for each")->allow_extra_args(false);
  run.add_flag("--list", command.list, "prints the ids of the cells and runs none");
  run.add_flag("--no-report", command.no_report, "leaves the report out");
  run.callback([&] { chosen = [&] { return vma::run_experiment(command); }; });
}

void add_check(CLI::App& app, vma::CheckCommand& command, std::function<int()>& chosen) {
  CLI::App& check =
      *app.add_subcommand("check", "how far the lab is from what happened in a recorded run");
  check.add_option("recordings", command.recordings, "vmart-PID-N.rec")->required();
  check.add_option("--calibration", command.calibration,
                   "what `vmart calibrate --json` printed; else the costs in the recording");
  check.add_option("--policy", command.policy, "instead of the recording's");
  check.add_flag("--timed", command.timed, "accesses come at their times, not as GPUs take them");
  check.add_flag("--rounds,!--no-rounds", command.rounds,
                 "programs launch ahead and wait then, as their times show");
  check.add_option("--ahead", command.ahead, "accesses of a GPU that do not wait for another's")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  check.add_option("--half-life", command.half_life_ms, "ms, of past use; else the recording's");
  check.add_option("--stall-budget", command.stall_budget_ms, "ms a second; else the recording's");
  check
      .add_option("--within", command.within,
                  "percent of time and bytes moved, and of stalls: 10,15")
      ->delimiter(',');
  add_bad_lines(check, command.bad_lines_max);
  check.add_flag("--json", command.json);
  check.callback([&] { chosen = [&] { return vma::run_check(command); }; });
}

int run(int argc, char** argv) {
  CLI::App app("The placement lab: what a policy would have done.", "vmart-lab");
  app.set_version_flag("--version", "vmart-lab " VMART_VERSION);
  app.require_subcommand(1);
  std::function<int()> chosen;
  vma::ConvertOptions convert;
  add_convert(app, convert, chosen);
  vma::GenerateOptions generate;
  add_generate(app, generate, chosen);
  vma::TraceCommand trace;
  add_trace(app, trace, chosen);
  vma::ReplayCommand replay;
  add_replay(app, replay, chosen);
  MachineCommand machine;
  add_machine(app, machine, chosen);
  vma::RunCommand experiment;
  add_run(app, experiment, chosen);
  vma::BoundsCommand bounds;
  add_bounds(app, bounds, chosen);
  vma::CheckCommand check;
  add_check(app, check, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_usage;  // Help and version come this way too.
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  fmt::print(stderr, "vmart-lab: {}\n", error.what());
  return failure;
}
