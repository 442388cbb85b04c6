#pragma once

#include "lab/bounds/placement_bounds.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_metrics.hpp"
#include "lab/replay/replay_options.hpp"

#include <vma/policy.hpp>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace vma {

/// What a cell and its bound have in common.
struct CellSetting {
  ReplayMachine machine;
  std::string trace;         ///< Its file.
  bool closed_loop = false;  ///< The trace declares tasks.
  std::string router;
  ReplayOptions options;
};

/// What a cell records besides its results, see `docs/guide/experiments.md`.
struct CellRecord {
  boost::json::object cell, inputs;
  /// Null, or of this cell's machine, trace, router and seed.
  boost::json::value bound;
};

/// Replays a cell. Returns its file: one line of JSON, which depends only on the arguments. Throws:
/// Error if the replay fails.
std::string run_cell(const CellSetting& setting, std::unique_ptr<Policy> policy,
                     const RequestLimits& limits, CellRecord record);

/// Replays a closed loop without moves, with the placement of its bound and with that of `static`:
/// the faster one is the bound's plan. Neither is if accesses were lost or a request gave its
/// memory up. Throws: as `run_cell`.
void replay_hindsight(const CellSetting& setting, std::uint64_t bad_lines_max, Bound& bound);

/// Computes the lower bound shared by all cells that differ only in the policy. Returns its file:
/// one line of JSON with `inputs`; if the trace has no bound, with the reason. Throws: other
/// errors, which may be temporary.
std::string run_bound(const CellSetting& setting, const boost::json::object& inputs);

}  // namespace vma
