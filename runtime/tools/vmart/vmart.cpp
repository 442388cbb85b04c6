#include "tools/vmart/control_commands.hpp"
#include "tools/vmart/vmart_commands.hpp"

#include "base/printable.hpp"
#include "tools/command_line/command_line.hpp"

#include <vma/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr int failure = 1;

void add_driver(CLI::App& command, std::string& driver) {
  command.add_option("--driver", driver, "cuda, sim:NAME or sim:FILE.json; default: VMART_DRIVER")
      ->option_text("DRIVER");
}

void add_calibrate_options(CLI::App& command, vma::CalibrateCommand& options) {
  add_driver(command, options.driver);
  command.add_flag("--show", options.show, "print the stored calibration without measuring");
  command.add_flag("--json", options.json, "print the calibration as JSON");
  command.add_flag("--keep,!--no-keep", options.keep, "store it for later runtimes");
  command.add_flag("--stops", options.stops, "measure live moves while GPUs read; takes longer");
  command.add_option("--mib", options.mib, "maximum memory at each place; 0: 1024, simulated 32")
      ->check(CLI::Range(0, 4'096))
      ->capture_default_str();
  command
      .add_option("--seconds", options.seconds,
                  "time limit; routes not measured by then stay estimates")
      ->check(CLI::Range(0.1, 3'600.0))
      ->capture_default_str();
}

void add_demo(CLI::App& app, std::function<int()>& chosen) {
  const auto options = std::make_shared<vma::DemoOptions>();
  CLI::App& demo = *app.add_subcommand(
      "demo", "allocates memory, moves part of it, and shows its place before and after");
  add_driver(demo, options->driver);
  demo.add_option("--mib", options->mib, "size of the allocation")
      ->check(CLI::Range(8, 65'536))
      ->capture_default_str();
  demo.add_flag("--json", options->json, "print one JSON object");
  demo.callback([&chosen, options] { chosen = [options] { return vma::run_demo(*options); }; });
}

/// A flag and its contrary. Unlike CLI11's own, it leaves `value` empty if neither is there.
void add_yes_or_no(CLI::App& command, const std::string& name, std::optional<bool>& value,
                   const std::string& meaning) {
  command.add_flag_callback(
      "--" + name, [&value] { value = true; }, meaning);
  command.add_flag_callback(
      "--no-" + name, [&value] { value = false; }, "the contrary");
}

/// Lets the command take a program, which needs no `--` before it. `program` has what follows one,
/// and then what the command is given.
void add_program(CLI::App& command, std::vector<std::string>& program,
                 std::function<void()> choose) {
  command.prefix_command();
  command.callback([&command, &program, choose = std::move(choose)] {
    const std::vector<std::string> rest = command.remaining();
    // CLI11 takes what it does not know for the program, also a misspelled option.
    if (!rest.empty() && (!program.empty() || rest.front().starts_with("-"))) {
      throw CLI::ExtrasError({rest.front()});
    }
    if (program.empty()) program = rest;
    if (program.empty()) throw CLI::RequiredError("PROGRAM");
    choose();
  });
}

/// `program` is what follows `--`, which CLI11 would take for arguments of `run` itself.
void add_run(CLI::App& app, std::vector<std::string> program, std::function<int()>& chosen) {
  const auto options = std::make_shared<vma::RunOptions>();
  options->program = std::move(program);
  CLI::App& run =
      *app.add_subcommand("run", "runs a CUDA program so that its device memory can move");
  run.add_option("--policy", options->policy,
                 "what decides where memory lies, such as auto; default: VMART_POLICY, or nothing");
  run.add_option("--capacity", options->capacity,
                 "most HBM that movable memory has on a GPU, such as gpu0=60GiB,gpu1=20GiB; the "
                 "coldest of the rest lies elsewhere");
  run.add_flag("--overcommit", options->overcommit,
               "memory for which HBM or --capacity leaves no room goes to other GPUs and the host, "
               "and the program is told of the GPU's whole memory");
  run.add_option("--min", options->smallest,
                 "smallest allocation that can move, such as 16MiB; default: 2MiB");
  run.add_option(
      "--exclude", options->excluded,
      "parts of names of libraries, separated by commas, whose memory stays the driver's; "
      "default: libnccl,libnvshmem");
  run.add_flag("--pools", options->pools,
               "memory of cudaMallocAsync and of CUDA's pools can move, too");
  run.add_flag("--sites", options->sites,
               "allocations of 16 MiB and more remember where the program made them, for vmart "
               "where --sites");
  add_yes_or_no(
      run, "vmm", options->vmm,
      "memory that it maps itself (cuMemCreate) can move, too; default: VMART_RUN_VMM, or no");
  run.add_option("--way", options->way,
                 "how it gets between the program and the driver: preload, by LD_PRELOAD, or shim, "
                 "a library in the place of the driver's, by LD_LIBRARY_PATH")
      ->check(CLI::IsMember({"preload", "shim"}))
      ->capture_default_str();
  add_yes_or_no(run, "children", options->children,
                "programs that it starts run in the same way; default: VMART_RUN_CHILDREN, or yes");
  for (const auto& [name, value] : {std::pair("--policy", "POLICY"),
                                    {"--capacity", "PLACE=SIZE,..."},
                                    {"--min", "SIZE"},
                                    {"--exclude", "NAME,..."}}) {
    run.get_option(name)->option_text(value);
  }
  add_program(run, options->program,
              [&chosen, options] { chosen = [options] { return vma::run_program(*options); }; });
}

void add_simulate(CLI::App& app, std::vector<std::string> program, std::function<int()>& chosen) {
  const auto options = std::make_shared<vma::SimulateOptions>();
  options->program = std::move(program);
  CLI::App& simulate = *app.add_subcommand(
      "simulate", "runs a program of the CUDA driver's interface on simulated GPUs");
  simulate
      .add_option("--machine", options->machine,
                  "a machine file or its name, such as h200x2; default: SIMCUDA_MACHINE, or two "
                  "GPUs of 4 GiB")
      ->option_text("MACHINE");
  simulate
      .add_option("--kernels", options->kernels,
                  "a shared object with host functions for the program's kernels; may be repeated")
      ->option_text("LIBRARY.so")
      ->allow_extra_args(false);
  add_program(simulate, options->program, [&chosen, options] {
    chosen = [options] { return vma::simulate_program(*options); };
  });
}

/// The `--` of `vmart run OPTION... -- PROGRAM...` and of `vmart simulate`; the end of the
/// arguments if there is none.
char** dashes_before_program(char** begin, char** end) {
  const std::string_view command = end - begin < 2 ? "" : begin[1];
  if (command != "run" && command != "simulate") return end;
  for (char** at = begin + 2; at < end; ++at) {
    const std::string_view argument = *at;
    if (argument == "--") return at;
    if (!argument.starts_with("-")) return end;  // The program; a later `--` is its own.
    for (const char* option :
         {"--policy", "--capacity", "--min", "--exclude", "--way", "--machine", "--kernels"}) {
      if (argument != option) continue;
      ++at;
      break;
    }
  }
  return end;
}

/// The headings of --help, and an example of each command.
void group_commands(CLI::App& app) {
  struct Form {
    const char *name, *group, *example;
  };
  constexpr const char *start = "Start", *look = "Look at running programs",
                       *act = "Move and limit their memory", *decide = "Decide what moves";
  constexpr Form forms[] = {{"demo", start, "VMART_DRIVER=sim:h200x2 vmart demo"},
                            {"doctor", start, "vmart doctor"},
                            {"run", start, "vmart run --policy auto -- python3 train.py"},
                            {"simulate", start, "vmart simulate --machine h200x2 -- ./test"},
                            {"calibrate", start, "vmart calibrate"},
                            {"status", look, "vmart status --pid 1234"},
                            {"top", look, "vmart top"},
                            {"where", look, "vmart where largest:4"},
                            {"explain", look, "vmart explain weights"},
                            {"events", look, "vmart events --follow"},
                            {"stats", look, "vmart stats --prometheus"},
                            {"migrate", act, "vmart migrate largest:4 gpu1"},
                            {"drain", act, "vmart drain gpu0"},
                            {"capacity", act, "vmart capacity gpu0 20GiB"},
                            {"yield", act, "vmart yield 1234 gpu0 20GiB"},
                            {"park", act, "vmart park --pid 1234"},
                            {"unpark", act, "vmart unpark gpu0 --pid 1234"},
                            {"policy", decide, "vmart policy --set auto"},
                            {"pause", decide, "vmart pause"},
                            {"step", decide, "vmart step"},
                            {"resume", decide, "vmart resume"}};
  for (const Form& form : forms) {
    CLI::App& command = *app.get_subcommand(form.name);
    command.group(form.group);
    vma::add_example(command, form.example);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Inspects and moves GPU memory while pointers stay the same.", "vmart");
  app.require_subcommand(1);

  vma::DoctorOptions doctor_options;
  CLI::App& doctor =
      *app.add_subcommand("doctor", "checks what this machine supports and what is missing");
  add_driver(doctor, doctor_options.driver);
  doctor.add_option("--copy-mib", doctor_options.copy_mib, "size of the timed copies; 0: none")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  doctor.add_flag("--json", doctor_options.json, "print one JSON object");

  std::function<int()> chosen = [&] { return vma::run_doctor(doctor_options); };
  add_demo(app, chosen);
  char** const end = argv + argc;
  char** const dashes = dashes_before_program(argv, end);
  const std::vector<std::string> program(dashes == end ? end : dashes + 1, end);
  add_run(app, program, chosen);
  add_simulate(app, program, chosen);
  vma::add_control_subcommands(app, chosen);

  vma::CalibrateCommand calibrate_command;
  CLI::App& calibrate = *app.add_subcommand(
      "calibrate", "measures the cost of copies, reads and moves on this machine");
  add_calibrate_options(calibrate, calibrate_command);
  calibrate.callback([&] { chosen = [&] { return vma::run_calibrate(calibrate_command); }; });

  group_commands(app);
  const auto status = vma::parse_command_line(app, static_cast<int>(dashes - argv), argv);
  if (status) return *status;
  return chosen();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  fmt::print(stderr, "vmart: {}\n", vma::printable_lines(vma::plain_message(error.what())));
  return failure;
}
