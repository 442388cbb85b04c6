#include "tools/vmart-lab/lab_commands.hpp"

#include "base/environment.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "tools/command_line/command_line.hpp"

#include <vma/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr int failure = 1;

/// What the command line specifies, one member per command.
struct Given {
  vma::ConvertCommand convert;
  vma::GenerateOptions generate;
  vma::TraceCommand trace;
  vma::ReplayCommand replay;
  vma::RunCommand run;
  vma::ReproduceCommand reproduce;
  vma::BoundsCommand bounds;
  vma::CheckCommand check;
  vma::CalibrationsCommand calibrations;
  std::vector<std::string> machine_files;
  std::string machine;
  vma::ProbeCommand probe;
};

struct Command {
  const char* name;
  const char* what;
  void (*add)(CLI::App& app, Given& given);  // Adds its options.
  int (*run)(const Given& given);
};

void add_bad_lines(CLI::App& command, std::uint64_t& most) {
  command.add_option("--bad-lines", most, "number of bad lines to skip before failing")
      ->capture_default_str();
}

void add_seed(CLI::App& command, std::uint64_t& seed) {
  command.add_option("--seed", seed, "seed of all random choices")->capture_default_str();
}

void add_parameters(CLI::App& command, std::vector<std::string>& values) {
  command.add_option("--param", values, "name=value; may be repeated")->allow_extra_args(false);
}

void add_convert(CLI::App& convert, Given& given) {
  vma::ConvertOptions& options = given.convert.options;
  convert.add_option("FORMAT", options.format, "see below")->required();
  convert.add_option("IN", options.input, "a trace, also gzip-compressed; - for standard input")
      ->required();
  convert.add_option("OUT", options.output, "NAME.vtrace (binary) or NAME.jsonl")->required();
  add_parameters(convert, options.values);
  add_seed(convert, options.seed);
  add_bad_lines(convert, options.bad_lines_max);
  convert.add_flag("--json", given.convert.json, "print the summary as JSON");
}

void add_generate(CLI::App& generate, Given& given) {
  vma::GenerateOptions& options = given.generate;
  generate.add_option("NAME", options.name, "see below")->required();
  generate.add_option("OUT", options.output, "NAME.vtrace (binary) or NAME.jsonl")->required();
  add_parameters(generate, options.values);
  add_seed(generate, options.seed);
  generate.footer(vma::describe_generators());
}

void add_trace(CLI::App& trace, Given& given) {
  trace.add_option("FILE", given.trace.path, "a trace")->required();
  add_bad_lines(trace, given.trace.bad_lines_max);
}

/// "2GiB", "512MiB", or a number of GiB. Empty if it is none of these.
std::optional<double> gib_of(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, number);
  if (failed == std::errc() && stopped == end && number > 0) return number;
  try {
    const std::uint64_t bytes = vma::parse_size(text, "a size");
    if (bytes > 0 && text.find_first_not_of("0123456789") != std::string::npos)
      return static_cast<double>(bytes) / static_cast<double>(vma::GiB);
  } catch (const vma::Error&) {
  }
  return std::nullopt;
}

void add_size_option(CLI::App& app, const char* name, std::optional<double>& gib,
                     const char* meaning) {
  app.add_option_function<std::string>(
         name, [&gib](const std::string& text) { gib = gib_of(text); }, meaning)
      ->option_text("SIZE")
      ->check([](const std::string& text) {
        return gib_of(text) ? std::string()
                            : fmt::format(
                                  "\"{}\" is no size above 0; expected one such as 40GiB, "
                                  "512MiB or 0.5, which is in GiB",
                                  text);
      });
}

/// Adds the trace and the options that describe where it runs.
void add_setting(CLI::App& app, vma::ReplayCommand& command) {
  app.add_option("TRACE", command.trace, "a trace, also gzip-compressed")->required();
  app.add_option("--machine", command.machine, "a name or a file")->capture_default_str();
  app.add_option("--router", command.router, "router for accesses that name no device")
      ->capture_default_str();
  add_size_option(app, "--hbm", command.hbm_gib, "HBM of each GPU; default: the machine's");
  add_size_option(app, "--host", command.host_gib, "memory of each host node");
  app.add_option("--chunk", command.chunk_mib,
                 "chunk size in MiB for objects whose trace gives none")
      ->capture_default_str();
  add_bad_lines(app, command.bad_lines_max);
  app.add_flag("--json", command.json);
}

void add_bounds(CLI::App& bounds, Given& given) {
  vma::BoundsCommand& command = given.bounds;
  add_setting(bounds, command.setting);
  bounds.add_flag("--on-time", command.on_time,
                  "for replays in which no device falls behind the trace");
  bounds.add_option("--lp", command.lp, "write the linear program of the exact optimum to NAME.lp");
}

void add_replay(CLI::App& replay, Given& given) {
  vma::ReplayCommand& command = given.replay;
  add_setting(replay, command);
  replay.add_option("--policy", command.policy, "a policy, written as in VMART_POLICY")
      ->capture_default_str();
  replay.add_option("--hbm-share", command.hbm_share,
                    "HBM of all GPUs together, as a share of what the trace has at once");
  replay.add_option("--pacing", command.pacing, "timed or at_once")->capture_default_str();
  replay
      .add_option(
          "--admission", command.admission,
          "requests whose memory does not fit: none (start anyway), queue, or preempt (wait,"
          " and the youngest one gives way to running ones that need more)")
      ->capture_default_str();
  replay
      .add_option("--admission-memory", command.admission_memory,
                  "what requests have to fit into: all memory that their GPU reaches, or its hbm")
      ->capture_default_str();
  replay.add_option("--slo-first", command.slo_first_ms,
                    "ms that the first task of a request may take, for goodput");
  replay.add_option("--slo-step", command.slo_step_ms,
                    "ms that a step of a request may take on average, for goodput");
  replay.add_option("--calibration", command.calibration,
                    "output of `vmart calibrate --json`; its costs replace the machine's");
  replay
      .add_option("--stall-budget", command.stall_budget_ms,
                  "ms per second that devices may be stopped at gates; 0: no limit")
      ->capture_default_str();
  replay
      .add_option("--stall-ahead", command.stall_ahead_ms,
                  "ms of which moves that pay may spend the stall budget ahead; 0: never")
      ->capture_default_str();
  replay.add_flag("--no-pace-guard", command.no_pace_guard,
                  "moves go on though closed loops are not faster with them");
  replay
      .add_option("--use-interval", command.use_interval_ms,
                  "how often in ms a long access is reported to the policy")
      ->capture_default_str();
  replay
      .add_option("--uses", command.uses,
                  "what the policy is told of uses: exact, launches (as under vmart run) or "
                  "base_pointers")
      ->capture_default_str();
  replay
      .add_option("--unseen", command.unseen,
                  "the share of objects that no launch shows, with --uses")
      ->capture_default_str();
  replay.add_option("--stop", command.stop, "what stops devices for a move: gate or suspension")
      ->capture_default_str();
  replay
      .add_option("--ahead", command.ahead_ms,
                  "ms of work that a program launches before waiting for it; 0: one kernel")
      ->capture_default_str();
  replay.add_option("--half-life", command.half_life_ms, "half-life of a use in ms; 1000");
}

void add_machine_check(CLI::App& check, Given& given) {
  check.add_option("FILE", given.machine_files, "names or files")->required();
}

void add_machine_show(CLI::App& show, Given& given) {
  show.add_option("MACHINE", given.machine, "a name or a file")->required();
}

void add_machine_probe(CLI::App& probe, Given& given) {
  probe.add_option("OUT", given.probe.output, "machine file to write")->required();
  probe.add_option("--name", given.probe.name, "of the machine");
  probe.add_option("--driver", given.probe.driver, "a driver, written as in VMART_DRIVER");
}

void add_jobs(CLI::App& command, std::size_t& jobs) {
  command.add_option("--jobs", jobs, "cells to run in parallel; default: the number of processors")
      ->check(CLI::Range(1, 4096));
}

void add_run(CLI::App& run, Given& given) {
  vma::RunCommand& command = given.run;
  run.add_option("EXPERIMENT", command.experiment,
                 "an experiment file (JSON); see docs/guide/experiments.md")
      ->required();
  run.add_option("--out", command.folder, "folder for the results");
  add_jobs(run, command.jobs);
  run.add_option("--only", command.only, "run only this cell; may be repeated")
      ->allow_extra_args(false);
  run.add_flag("--list", command.list, "print the ids of the cells and exit");
  run.add_flag("--list-files", command.list_files, "print the input files of its traces and exit");
  run.add_flag("--no-report", command.no_report, "do not write the report");
  run.parse_complete_callback([&command] {
    if (command.folder.empty() && !command.list && !command.list_files)
      throw CLI::RequiredError("--out FOLDER");
  });
}

void add_reproduce(CLI::App& reproduce, Given& given) {
  vma::ReproduceCommand& command = given.reproduce;
  reproduce.add_option("NAME", command.names, "a table or figure; default: list them");
  reproduce.add_flag("--smoke", command.smoke,
                     "make all of them from what is committed, and a part of their cells anew");
  reproduce.add_option("--out", command.folder,
                       "folder for results and what is made; default: reproduced");
  reproduce.add_option("--from", command.table,
                       "run nothing; make them of this table, such as docs/measurements/study.csv");
  add_jobs(reproduce, command.jobs);
  reproduce
      .add_option("--policy", command.policies,
                  "leaderboard: add a row for this policy; may be repeated")
      ->allow_extra_args(false);
  reproduce.add_option("--within", command.within,
                       "percent by which numbers of what is run again may differ; default: 5");
  reproduce.add_option("--source", command.source,
                       "vmart's source tree; default: the current folder, or one above it or the "
                       "program");
}

void add_check(CLI::App& check, Given& given) {
  vma::CheckCommand& command = given.check;
  check.add_option("RECORDING", command.recordings, "vmart-PID-N.rec")->required();
  check.add_option("--calibration", command.calibration,
                   "output of `vmart calibrate --json`; default: the costs in the recording");
  check.add_option("--policy", command.policy, "a policy; default: the recording's");
  check.add_flag("--timed", command.timed,
                 "issue accesses at their recorded times, not at the GPUs' pace");
  check.add_flag("--pauses", command.pauses,
                 "keep the time between accesses in which a GPU did something else");
  check.add_option("--program", command.program,
                   "take these pauses from another recording of the same program, which moved "
                   "nothing; implies --pauses");
  check.add_flag("--rounds,!--no-rounds", command.rounds,
                 "programs launch ahead and then wait, as the recorded times show");
  check.add_option("--ahead", command.ahead, "concurrent accesses per GPU")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  check.add_option("--half-life", command.half_life_ms,
                   "half-life of a use in ms; default: the recording's");
  check.add_option("--stall-budget", command.stall_budget_ms,
                   "ms per second; default: the recording's");
  check
      .add_option("--within", command.within,
                  "tolerance in percent for time and bytes moved, and for stalls: 10,15")
      ->delimiter(',');
  add_bad_lines(check, command.bad_lines_max);
  check.add_flag("--json", command.json);
}

void add_calibrations(CLI::App& app, Given& given) {
  vma::CalibrationsCommand& command = given.calibrations;
  app.add_option("FILE", command.files, "output of `vmart calibrate --json`, of one machine each")
      ->required();
  app.add_option("--out", command.output, "file for the median, a calibration like the others");
}

const std::array commands{
    Command{"convert", "converts a file of another format to a trace", add_convert,
            [](const Given& given) { return vma::run_convert(given.convert); }},
    Command{"generate", "generates a synthetic trace", add_generate,
            [](const Given& given) { return vma::run_generate(given.generate); }},
    Command{"trace", "describes a trace and lists its errors", add_trace,
            [](const Given& given) { return vma::run_trace(given.trace); }},
    Command{"replay", "replays a trace on a machine with a policy", add_replay,
            [](const Given& given) { return vma::run_replay(given.replay); }},
    Command{"run", "runs all cells of an experiment file", add_run,
            [](const Given& given) -> int { vma::run_experiment(given.run); }},
    Command{"reproduce", "makes tables and figures of vmart's pages anew, and compares",
            add_reproduce,
            [](const Given& given) -> int { vma::reproduce_figures(given.reproduce); }},
    Command{"cells", "answers the questions of run, one JSON line each", [](CLI::App&, Given&) {},
            [](const Given&) { return vma::answer_questions(); }},
    Command{"bounds", "computes a lower bound on the cost of any policy", add_bounds,
            [](const Given& given) { return vma::run_bounds(given.bounds); }},
    Command{"check", "compares a replay with the recorded run", add_check,
            [](const Given& given) { return vma::run_check(given.check); }},
    Command{"calibrations", "takes the median of several machines' calibrations", add_calibrations,
            [](const Given& given) { return vma::run_calibrations(given.calibrations); }}};

const std::array machine_commands{
    Command{"check", "lists the errors in machine files", add_machine_check,
            [](const Given& given) { return vma::run_machine_check(given.machine_files); }},
    Command{"list", "lists the machine files and their sources", [](CLI::App&, Given&) {},
            [](const Given&) { return vma::run_machine_list(); }},
    Command{"show", "shows the costs of one machine, route by route", add_machine_show,
            [](const Given& given) { return vma::run_machine_show(given.machine); }},
    Command{"probe", "writes a machine file for this machine", add_machine_probe,
            [](const Given& given) { return vma::run_probe(given.probe); }}};

void add_all(CLI::App& app, std::span<const Command> all, Given& given, const Command*& chosen) {
  app.require_subcommand(1);
  for (const Command& command : all) {
    CLI::App& added = *app.add_subcommand(command.name, command.what);
    command.add(added, given);
    added.callback([&] { chosen = &command; });
  }
}

void give_examples(CLI::App& app) {
  struct Form {
    const char *name, *example;
  };
  constexpr Form forms[] = {
      {"generate", "vmart-lab generate drift drift.vtrace"},
      {"convert", "vmart-lab convert mooncake requests.jsonl requests.vtrace"},
      {"trace", "vmart-lab trace drift.vtrace"},
      {"replay", "vmart-lab replay drift.vtrace --machine h200x2 --hbm 2GiB --policy auto"},
      {"bounds", "vmart-lab bounds drift.vtrace --machine h200x2 --hbm 2GiB"},
      {"run", "vmart-lab run experiment.json --out results"},
      {"reproduce", "vmart-lab reproduce study_real --out reproduced"},
      {"check", "vmart-lab check vmart-1234-1.rec"},
      {"calibrations", "vmart-lab calibrations one.json two.json three.json --out median.json"},
      {"machine", "vmart-lab machine show h200x2"}};
  for (const Form& form : forms) vma::add_example(*app.get_subcommand(form.name), form.example);
  // Above the example; asked for only when the help is shown.
  app.get_subcommand("convert")->footer([] { return vma::describe_formats() + "\n"; });
}

int run(int argc, char** argv) {
  CLI::App app("The placement lab: replays memory traces under placement policies.", "vmart-lab");
  Given given;
  const Command* chosen = nullptr;
  add_all(app, commands, given, chosen);
  add_all(*app.add_subcommand("machine", "manages the machines that traces are replayed on"),
          machine_commands, given, chosen);
  give_examples(app);
  if (const auto status = vma::parse_command_line(app, argc, argv)) return *status;
  return chosen->run(given);
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  fmt::print(stderr, "vmart-lab: {}\n", vma::printable_lines(vma::plain_message(error.what())));
  return failure;
}
