#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "lab/experiments/cell_runner.hpp"
#include "lab/experiments/job_pool.hpp"
#include "lab/experiments/result_folder.hpp"
#include "lab/experiments/results_table.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vma {

struct RunOptions {
  std::string folder;
  std::size_t threads = 1;
  std::vector<std::string> only;  ///< Ids of cells; empty: all cells, and their tables.
};

/// Receives the progress of a run. Called by any thread, one call at a time.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  /// A stage before the cells begins, and may take a while: "making and reading 3 traces".
  virtual void on_stage(const std::string& /*what*/) {}
  /// Earlier runs have finished `finished` of the `cells`.
  virtual void on_begin(std::size_t /*cells*/, std::size_t /*finished*/) {}
  virtual void on_cell(const ExperimentCell& /*cell*/) {}
  /// Whether to stop before the next cell. May be called concurrently.
  virtual bool stop() const { return false; }
};

struct RunOutcome {
  std::size_t cells = 0;     ///< Requested cells.
  std::size_t finished = 0;  ///< Finished cells among these, including those of earlier runs.
  bool stopped = false;      ///< Stopped before all cells began.
  /// Failed cells with id and reason, in the order of the experiment.
  std::map<std::size_t, std::pair<std::string, std::string>> failed;
  std::map<std::string, std::string> failed_bounds;  ///< Reasons, keyed by id.
  std::size_t without_bound = 0;                     ///< Cells skipped because their bound failed.
  bool all_went_well() const { return failed.empty() && failed_bounds.empty(); }
};

/// Runs the unfinished cells of an experiment on several threads. The resulting folder depends only
/// on the experiment, not on threads or restarts. One object per run.
/// One owner: what all threads of a run read, and under one lock what they add to the folder.
class ExperimentRun {
 public:
  /// Requires: `experiment`, `executor` and `watcher` outlive it. Throws: Error{invalid_argument}
  /// for an unknown cell.
  ExperimentRun(const Experiment& experiment, RunOptions options, Executor& executor,
                RunWatcher& watcher);

  /// Prepares all traces and checks existing results before the first cell begins. Throws: as
  /// `ResultFolder` and `make_ready`; Error{invalid_argument} for a finished cell with other
  /// inputs; Error{driver_failure} if a result cannot be written, which ends the run.
  RunOutcome run();

 private:
  void choose(const std::vector<std::string>& only);
  void make_traces(const ResultFolder& folder);
  void find_finished(const ResultFolder& folder);
  void find_bounds(const ResultFolder& folder);
  /// Null if the bound does not exist, or if computing it fails.
  boost::json::value find_bound(const ExperimentCell& cell, const ResultFolder& folder);
  void run_cells(const ResultFolder& folder);
  void run_cell(std::size_t number, const ResultFolder& folder);
  void note(std::size_t number, const CellFile& result);
  const ReadyTrace& trace_of(const ExperimentCell& cell) const;
  /// Null if there is none.
  const boost::json::value& bound_of(const ExperimentCell& cell) const;

  const Experiment& experiment_;
  const RunOptions options_;
  RunWatcher& watcher_;
  JobPool pool_;
  const std::vector<ExperimentCell> cells_;
  std::vector<std::size_t> chosen_;  // Indices into `cells_`.
  const ExperimentInputs inputs_;
  const CellRunner cell_runner_;
  const BoundRunner bound_runner_;
  std::map<std::pair<std::size_t, std::uint64_t>, ReadyTrace> traces_;  // Keyed by trace and seed.
  std::map<std::string, boost::json::value> bounds_;                    // Keyed by `bound_id`.

  Mutex mutex_;
  std::vector<bool> finished_ VMART_GUARDED_BY(mutex_);  // Per index into `cells_`.
  ResultsTable table_ VMART_GUARDED_BY(mutex_);
  RunOutcome outcome_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
