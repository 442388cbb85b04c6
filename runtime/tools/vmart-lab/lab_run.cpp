#include "tools/vmart-lab/lab_run.hpp"

#include "lab/experiments/experiment_reader.hpp"
#include "lab/experiments/experiment_run.hpp"
#include "lab/experiments/ready_trace.hpp"
#include "tools/vmart-lab/report_start.hpp"
#include "tools/vmart-lab/run_progress.hpp"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace vma {
namespace {

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
