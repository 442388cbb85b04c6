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
  std::string id;           ///< A readable file name; depends only on the members below.
  std::size_t machine = 0;  ///< Index into the experiment's.
  std::size_t trace = 0;    ///< Index into the experiment's.
  std::string policy, router;
  std::uint64_t seed = 0;
};

/// All cells: machine by machine, then trace by trace, policy, router, seed. A trace that is a file
/// does not depend on a seed, so only the first seed is used. Throws: Error{invalid_argument} if
/// they are too many.
std::vector<ExperimentCell> cells_of(const Experiment& experiment);

/// The id of the bound of all cells that differ only in the policy.
std::string bound_id(const Experiment& experiment, const ExperimentCell& cell);

/// What identifies the cell: `docs/guide/experiments.md` describes the keys.
boost::json::object to_json(const Experiment& experiment, const ExperimentCell& cell);

/// `parts` as one file name: unchanged, joined by `~`, if they are short and contain only letters,
/// digits and ._=,+-; otherwise with a checksum.
std::string file_name_of(const std::vector<std::string>& parts);

}  // namespace vma
