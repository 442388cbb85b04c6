#include "lab/experiments/experiment_run.hpp"

#include "base/check.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>

namespace vma {

ExperimentRun::ExperimentRun(const Experiment& experiment, RunOptions options, Executor& executor,
                             RunWatcher& watcher)
    : experiment_(experiment),
      options_(std::move(options)),
      watcher_(watcher),
      pool_(executor, options_.threads),
      cells_(cells_of(experiment)),
      inputs_(experiment),
      cell_runner_(inputs_),
      bound_runner_(inputs_),
      finished_(cells_.size()),
      table_(experiment, cells_.size()) {
  choose(options_.only);
}

void ExperimentRun::choose(const std::vector<std::string>& only) {
  std::set<std::string> wanted(only.begin(), only.end());
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (only.empty() || wanted.erase(cells_[i].id) > 0) chosen_.push_back(i);
  }
  if (!wanted.empty()) {
    throw Error(ErrorKind::invalid_argument, "vmart-lab run",
                fmt::format("{} has no cell \"{}\"; --list prints all cells", experiment_.file,
                            *wanted.begin()));
  }
}

const ReadyTrace& ExperimentRun::trace_of(const ExperimentCell& cell) const {
  return traces_.at({cell.trace, cell.seed});
}

void ExperimentRun::make_traces(const ResultFolder& folder) {
  for (const std::size_t chosen : chosen_)
    traces_.try_emplace({cells_[chosen].trace, cells_[chosen].seed});
  std::vector<decltype(traces_)::value_type*> all;
  for (auto& one : traces_) all.push_back(&one);
  watcher_.on_stage(fmt::format("making and reading {} traces", all.size()));
  pool_.run(
      all.size(),
      [&](std::size_t i) {
        const auto& [trace, seed] = all[i]->first;
        all[i]->second = make_ready(experiment_.traces[trace], seed, folder);
      },
      [&] { return watcher_.stop(); });
}

void ExperimentRun::note(std::size_t number, const CellFile& result) {
  MutexLock lock(mutex_);
  finished_[number] = true;
  table_.set(number, cells_[number], result);
  ++outcome_.finished;
}

void ExperimentRun::find_finished(const ResultFolder& folder) {
  pool_.run(
      chosen_.size(),
      [&](std::size_t i) {
        const ExperimentCell& cell = cells_[chosen_[i]];
        const std::string path = folder.cell_path(cell.id);
        const std::optional<std::string> text = ResultFolder::read(path);
        if (!text) return;
        const std::optional<CellFile> known = CellFile::parse(*text, path);
        if (!known) return;
        cell_runner_.require_same(cell, trace_of(cell), *known);
        note(chosen_[i], *known);
      },
      [&] { return watcher_.stop(); });
}

boost::json::value ExperimentRun::find_bound(const ExperimentCell& cell,
                                             const ResultFolder& folder) {
  const ReadyTrace& trace = trace_of(cell);
  const std::string id = bound_id(experiment_, cell);
  const std::string path = folder.bound_path(id);
  if (const std::optional<std::string> known = ResultFolder::read(path)) {
    if (auto bound = bound_runner_.read(*known, path, cell, trace)) return *std::move(bound);
  }
  std::string text;
  try {
    text = bound_runner_.run(cell, trace);
  } catch (const std::exception& error) {
    MutexLock lock(mutex_);
    outcome_.failed_bounds.emplace(id, error.what());
    return nullptr;
  }
  folder.write(path, text);
  auto bound = bound_runner_.read(text, path, cell, trace);
  VMART_CHECK(bound.has_value(), "what was written can be read");
  return *std::move(bound);
}

void ExperimentRun::find_bounds(const ResultFolder& folder) {
  if (!experiment_.bounds) return;
  std::vector<std::pair<const ExperimentCell*, boost::json::value*>> all;
  for (const std::size_t chosen : chosen_) {
    const auto [place, is_new] = bounds_.try_emplace(bound_id(experiment_, cells_[chosen]));
    if (is_new) all.emplace_back(&cells_[chosen], &place->second);
  }
  watcher_.on_stage(fmt::format("finding {} lower bounds", all.size()));
  pool_.run(
      all.size(), [&](std::size_t i) { *all[i].second = find_bound(*all[i].first, folder); },
      [&] { return watcher_.stop(); });
}

const boost::json::value& ExperimentRun::bound_of(const ExperimentCell& cell) const {
  static const boost::json::value none;
  const auto found = bounds_.find(bound_id(experiment_, cell));
  return found == bounds_.end() ? none : found->second;
}

void ExperimentRun::run_cell(std::size_t number, const ResultFolder& folder) {
  const ExperimentCell& cell = cells_[number];
  std::string text;
  try {
    text = cell_runner_.run(cell, trace_of(cell), bound_of(cell));
  } catch (const std::exception& error) {
    MutexLock lock(mutex_);
    outcome_.failed.emplace(number, std::pair(cell.id, error.what()));
    watcher_.on_cell(cell);
    return;
  }
  const std::string path = folder.cell_path(cell.id);
  folder.write(path, text);
  const std::optional<CellFile> result = CellFile::parse(text, path);
  VMART_CHECK(result.has_value(), "what was written can be read");
  note(number, *result);
  MutexLock lock(mutex_);
  watcher_.on_cell(cell);
}

void ExperimentRun::run_cells(const ResultFolder& folder) {
  std::vector<std::size_t> left;
  {
    MutexLock lock(mutex_);
    for (const std::size_t chosen : chosen_) {
      if (finished_[chosen]) continue;
      // A cell contains its bound: without it, another run would make a different cell.
      const bool has_bound =
          !outcome_.failed_bounds.contains(bound_id(experiment_, cells_[chosen]));
      if (has_bound) left.push_back(chosen);
      outcome_.without_bound += has_bound ? 0 : 1;
    }
    watcher_.on_begin(chosen_.size(), outcome_.finished);
  }
  pool_.run(
      left.size(), [&](std::size_t i) { run_cell(left[i], folder); },
      [&] { return watcher_.stop(); });
}

RunOutcome ExperimentRun::run() {
  const ResultFolder folder(options_.folder, experiment_);
  make_traces(folder);
  if (!watcher_.stop()) find_finished(folder);
  if (!watcher_.stop()) find_bounds(folder);
  if (!watcher_.stop()) run_cells(folder);
  MutexLock lock(mutex_);
  outcome_.cells = chosen_.size();
  outcome_.stopped =
      outcome_.finished + outcome_.failed.size() + outcome_.without_bound < chosen_.size();
  if (!outcome_.stopped && options_.only.empty()) {
    folder.write(folder.path() + "/results.csv", table_.csv());
    folder.write(folder.path() + "/summary.csv", table_.summary());
  }
  return outcome_;
}

}  // namespace vma
