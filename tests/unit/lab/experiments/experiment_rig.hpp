#pragma once

#include "lab/experiments/experiment_run.hpp"
#include "unit/recording/record_samples.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// An experiment of 8 cells that take milliseconds each: two machines, a generated trace with two
/// seeds, two policies.
inline constexpr std::string_view quick_experiment = R"({
  "experiment": "quick",
  "machines": ["test-2", {"name": "full", "machine": "test-2", "hbm_gib": 0.03125}],
  "traces": [
    {"name": "drift", "generate": "zipf-drift", "parameters":
      {"gpus": 2, "object_bytes": 4194304, "length_s": 0.3, "objects": 28, "accesses_s": 200}}
  ],
  "policies": ["stay_put", "cost_benefit:margin=1.25"],
  "seeds": [1, 2]
})";

/// Counts events and calls functions of the test.
class TestWatcher : public RunWatcher {
 public:
  void on_stage(const std::string& what) override {
    if (at_stage) at_stage(what);
  }
  void on_begin(std::size_t cells, std::size_t finished) override {
    began_with = {cells, finished};
    if (at_begin) at_begin();
  }
  void on_cell(const ExperimentCell& cell) override {
    ids.push_back(cell.id);
    if (then) then(ids.size());
  }
  bool stop() const override { return stopped; }

  std::pair<std::size_t, std::size_t> began_with;
  std::vector<std::string> ids;
  std::function<void(const std::string& what)> at_stage;
  std::function<void()> at_begin;               ///< Called before the first cell.
  std::function<void(std::size_t cells)> then;  ///< Called after each cell.
  std::atomic<bool> stopped = false;
};

/// The file of an experiment, and folders next to it for its results.
class ExperimentRig {
 public:
  explicit ExperimentRig(std::string_view text = quick_experiment);

  std::string operator/(const std::string& name) const { return folder_ / name; }
  /// Replaces the file.
  void write(std::string_view text) const;
  RunOutcome run(const std::string& folder, std::size_t threads = 1,
                 const std::vector<std::string>& only = {});
  /// All files below a folder of results, keyed by path.
  std::map<std::string, std::string> results(const std::string& folder) const;

  TestWatcher watcher;

 private:
  TemporaryFolder folder_;
  ThreadedExecutor executor_;
};

}  // namespace vma
