#include "tools/vmart-lab/lab_commands.hpp"

#include "lab/experiments/experiment_reader.hpp"
#include "lab/experiments/experiment_run.hpp"
#include "lab/experiments/ready_trace.hpp"
#include "lab/import/python_child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// Prints the progress of a run on standard error: a bar on a terminal, otherwise a line now and
/// then. Not thread-safe.
class RunProgress {
 public:
  RunProgress();

  /// Announces a step before the cells that may take a while.
  void say(const std::string& what) const;
  void begin(std::size_t cells, std::size_t finished);
  /// Reports that one more cell has ended.
  void step(const std::string& id);
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  void print(const std::string& id) const;

  const bool terminal_;
  bool began_ = false;
  std::size_t cells_ = 0, before_ = 0, done_ = 0;  // `done_` includes `before_`.
  Clock::time_point start_, printed_;
};

constexpr std::size_t bar_columns = 30;
constexpr auto between_bars = std::chrono::milliseconds(100);
constexpr auto between_lines = std::chrono::seconds(10);

/// A line that is as wide as the terminal wraps in some, and a wrapped line cannot be overwritten.
std::size_t columns_max() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80U) - 1;
}

RunProgress::RunProgress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void RunProgress::say(const std::string& what) const {
  if (terminal_) fmt::print(stderr, "{}\n", what);
}

void RunProgress::begin(std::size_t cells, std::size_t finished) {
  began_ = true;
  cells_ = cells;
  before_ = done_ = finished;
  start_ = printed_ = Clock::now();
  if (finished > 0) fmt::print(stderr, "{} of {} cells were already finished\n", finished, cells);
  if (terminal_) print("");
}

void RunProgress::step(const std::string& id) {
  ++done_;
  const Clock::time_point now = Clock::now();
  if (now - printed_ < (terminal_ ? Clock::duration(between_bars) : between_lines)) return;
  printed_ = now;
  print(id);
}

void RunProgress::print(const std::string& id) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_ - before_) / seconds : 0;
  const std::string rest =
      rate > 0 ? fmt::format("{:.0f} s left", static_cast<double>(cells_ - done_) / rate) : "";
  if (!terminal_) {
    fmt::print(stderr, "{} of {} cells, {}\n", done_, cells_, rest);
    return;
  }
  const std::size_t full = bar_columns * done_ / std::max<std::size_t>(cells_, 1);
  const std::string line = fmt::format("[{:#<{}}{:{}}] {}/{} {} {}", "", full, "",
                                       bar_columns - full, done_, cells_, rest, id);
  fmt::print(stderr, "\r{}\x1b[K", line.substr(0, columns_max()));
  std::fflush(stderr);
}

void RunProgress::end() {
  if (!terminal_ || !began_) return;
  print("");
  fmt::print(stderr, "\n");
}

/// The module has printed what is missing. Must equal `MISSING` in its `__main__.py`.
constexpr int libraries_missing = EX_UNAVAILABLE;
constexpr int not_run = 127;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Runs python3 with these arguments and returns its exit status.
int run_python(std::vector<std::string> arguments, bool quiet) {
  arguments.insert(arguments.begin(), "python3");
  std::vector<std::string> values = python_environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (quiet) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = 0;
  const int failed = posix_spawnp(&child, "python3", &actions, nullptr, pointers(arguments).data(),
                                  pointers(values).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return not_run;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return not_run;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Starts Python to create the report of a folder of results. If the module or a library that it
/// needs is missing, prints a line that says so and does not count as a failure. Returns false if
/// the report was started and failed. Blocks: until it has ended.
bool start_report(const std::string& folder) {
  const auto say_how = [&] {
    fmt::print(stderr,
               "no report: python3 cannot import vmart.lab and its dependencies; install them and "
               "run python3 -m vmart.lab report {}\n",
               folder);
    return true;
  };
  if (run_python({"-c", "import vmart.lab"}, true) != 0) return say_how();
  const int status = run_python({"-m", "vmart.lab", "report", folder}, false);
  if (status == libraries_missing) return say_how();
  if (status != 0) fmt::print(stderr, "vmart-lab: the report failed with {}\n", status);
  return status == 0;
}

constexpr int some_failed = 1;
constexpr int interrupted = 130;

std::atomic<bool> asked_to_stop = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

/// The first signal lets running cells finish; a second one ends the program at once.
void stop_at_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_stop = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

class Watcher : public RunWatcher {
 public:
  void on_stage(const std::string& what) override { progress_.say(what); }
  void on_begin(std::size_t cells, std::size_t finished) override {
    progress_.begin(cells, finished);
  }
  void on_cell(const ExperimentCell& cell) override { progress_.step(cell.id); }
  bool stop() const override { return asked_to_stop; }
  void end() { progress_.end(); }

 private:
  RunProgress progress_;
};

void list(const Experiment& experiment) {
  for (const ExperimentCell& cell : cells_of(experiment)) fmt::print("{}\n", cell.id);
}

void list_files(const Experiment& experiment) {
  for (const ExperimentTrace& trace : experiment.traces)
    for (const std::string& file : files_of(trace)) fmt::print("{}\t{}\n", trace.name, file);
}

void print(const RunCommand& command, const RunOutcome& outcome) {
  for (const auto& [id, reason] : outcome.failed_bounds)
    fmt::print(stderr, "vmart-lab: the bound {} failed: {}\n", id, reason);
  for (const auto& [number, failed] : outcome.failed)
    fmt::print(stderr, "vmart-lab: {} failed: {}\n", failed.first, failed.second);
  fmt::print("{} of {} cells are finished", outcome.finished, outcome.cells);
  if (!outcome.failed.empty()) fmt::print(", {} failed", outcome.failed.size());
  if (outcome.without_bound > 0) fmt::print(", {} are waiting for a bound", outcome.without_bound);
  fmt::print("{}: {}\n", outcome.stopped ? "; run the same command to continue" : "",
             command.folder);
}

}  // namespace

int run_experiment(const RunCommand& command) {
  const Experiment experiment = read_experiment(command.experiment);
  if (command.list) {
    list(experiment);
    return 0;
  }
  if (command.list_files) {
    list_files(experiment);
    return 0;
  }
  stop_at_signals();
  ThreadedExecutor executor;
  Watcher watcher;
  const std::size_t processors = std::thread::hardware_concurrency();
  ExperimentRun run(experiment,
                    {command.folder, command.jobs == 0 ? processors : command.jobs, command.only},
                    executor, watcher);
  const RunOutcome outcome = run.run();
  watcher.end();
  print(command, outcome);
  if (outcome.stopped) return interrupted;
  const bool report = !command.no_report && command.only.empty() && outcome.finished > 0;
  const bool reported = !report || start_report(command.folder);
  return outcome.all_went_well() && reported ? 0 : some_failed;
}

}  // namespace vma
