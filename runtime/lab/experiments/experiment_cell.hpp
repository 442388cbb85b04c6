#pragma once

#include "lab/experiments/experiment.hpp"

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// One combination of an experiment's machines, traces, policies, routers and seeds.
struct ExperimentCell {
  std::string id;           ///< A readable file name that depends only on the members below.
  std::size_t machine = 0;  ///< Index into the experiment's machines.
  std::size_t trace = 0;    ///< Index into the experiment's traces.
  std::string policy, router;
  std::uint64_t seed = 0;
};

/// All cells, ordered by machine, trace, policy, router and seed. A trace from a file does not
/// depend on the seed, so it is used only with the first. Throws: Error{invalid_argument} if there
/// are too many cells.
std::vector<ExperimentCell> cells_of(const Experiment& experiment);

/// The id of the bound shared by all cells that differ only in the policy.
std::string bound_id(const Experiment& experiment, const ExperimentCell& cell);

/// Identifies the cell; `docs/guide/experiments.md` describes the keys.
boost::json::object to_json(const Experiment& experiment, const ExperimentCell& cell);

/// Combines `parts` into one file name: unchanged and joined by `~` if they are short and contain
/// only letters, digits and ._=,+-; otherwise with a checksum.
std::string file_name_of(const std::vector<std::string>& parts);

}  // namespace vma
