#pragma once

#include "lab/experiments/single_replay.hpp"
#include "lab/fidelity/fidelity.hpp"
#include "lab/generate/trace_generators.hpp"
#include "lab/import/trace_formats.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct ReplayCommand : ReplaySetting {
  bool json = false;
};

/// Replays a trace and prints the result. Returns the exit status. Throws: Error if a trace,
/// machine, policy or router is unavailable.
int run_replay(const ReplayCommand& command);

struct BoundsCommand {
  ReplayCommand setting;  ///< `policy` and `pacing` are ignored.
  /// Assumes that no device is ever late, so that accesses begin in the order of the trace.
  bool on_time = false;
  std::string lp;  ///< File for the linear program whose optimum is the exact bound; may be empty.
};

/// Prints lower bounds that hold for all policies with this trace, machine and router, and the
/// costs of plans that know the whole trace. Returns the exit status. Throws: Error if a trace,
/// machine or router is unavailable, or if the program is too large or cannot be written.
int run_bounds(const BoundsCommand& command);

struct RunCommand {
  std::string experiment;  ///< The experiment file.
  std::string folder;      ///< May be empty only if something is just listed.
  std::size_t jobs = 0;    ///< 0: one per processor.
  std::vector<std::string> only;
  bool list = false, list_files = false, no_report = false;
};

/// Becomes the Python program that runs the cells of an experiment. Throws: as `become_python`.
[[noreturn]] void run_experiment(const RunCommand& command);

struct ReproduceCommand {
  std::vector<std::string> names;     ///< Tables and figures; if there is none, all are listed.
  std::string folder, table, source;  ///< May be empty.
  std::size_t jobs = 0;               ///< 0: one per processor.
  std::vector<std::string> policies;
  std::optional<double> within;
  bool smoke = false;
};

/// Becomes the Python program that makes them anew and compares. Throws: as `become_python`.
[[noreturn]] void reproduce_figures(const ReproduceCommand& command);

/// Answers the questions of `run` on standard input, see `LabWorker`. Returns the exit
/// status.
int answer_questions();

struct CheckCommand {
  std::vector<std::string> recordings;
  std::string calibration;  ///< A file. If empty, the costs in the recording apply.
  std::string policy;
  bool timed = false;
  bool pauses = false;  ///< Of GPUs between accesses, as in the recording itself or in `program`.
  std::string program;  ///< A recording of the same program. If empty, none.
  bool rounds = true;
  std::size_t ahead = PredictOptions().ahead;
  std::optional<double> half_life_ms, stall_budget_ms;
  std::uint64_t bad_lines_max = 0;
  /// Percent: for time and bytes, and for stalls. Empty accepts any difference.
  std::vector<double> within;
  bool json = false;
};

/// Replays recorded runs and prints how much the results differ from what happened. Returns the
/// exit status: 1 if any difference exceeds `within`. Throws: Error if a recording, calibration or
/// policy is unavailable.
int run_check(const CheckCommand& command);

struct ConvertCommand {
  ConvertOptions options;
  bool json = false;
};
/// Converts a file of another format to a trace and prints a summary. Returns the exit status.
int run_convert(const ConvertCommand& command);

/// Generates a synthetic trace and prints a summary. Returns the exit status.
int run_generate(const GenerateOptions& options);

struct TraceCommand {
  std::string path;
  std::uint64_t bad_lines_max = BadLines::count_max;
};
/// Prints a summary of a trace and its errors. Returns the exit status: 1 if there are any.
int run_trace(const TraceCommand& command);

// Names and parameters, shown at the end of the help text. That of the formats starts Python.
std::string describe_formats();
std::string describe_generators();

/// Prints for each machine file, given by name or path, that it is valid, or all of its problems.
/// Returns the exit status: 1 if there are any.
int run_machine_check(const std::vector<std::string>& files);

/// Lists the known machines and how many of their numbers are measured. Returns the exit status: 1
/// if one cannot be loaded.
int run_machine_list();

/// Prints the costs that a replay on the machine uses, by kind of route. Returns the exit status.
/// Throws: Error if the machine is unavailable.
int run_machine_show(const std::string& machine);

struct ProbeCommand {
  std::string output;
  std::string name;    ///< Name of the machine. If empty, it is derived from its GPUs.
  std::string driver;  ///< As in `RuntimeOptions`.
};

/// Writes the machine file of this machine, or of a simulated one, and prints its progress. Returns
/// the exit status. Throws: Error if the machine cannot be described or the file cannot be written.
int run_probe(const ProbeCommand& command);

struct CalibrationsCommand {
  std::vector<std::string> files;
  std::string output;  ///< If empty, the median is not written.
};

/// Prints how far several machines' calibrations differ, and writes their median. Returns the exit
/// status. Throws: Error if a file is unusable, or they are of machines of different types.
int run_calibrations(const CalibrationsCommand& command);

}  // namespace vma
