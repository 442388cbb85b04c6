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
  std::string id;           ///< A file's name, readable; follows from what is below only.
  std::size_t machine = 0;  ///< Index into the experiment's.
  std::size_t trace = 0;    ///< Index into the experiment's.
  std::string policy, router;
  std::uint64_t seed = 0;
};

/// All of them: machine by machine, then trace by trace, policy, router, seed. A trace that is a
/// file does not depend on a seed, and has the first one only. Throws: Error{invalid_argument} if
/// they are too many.
std::vector<ExperimentCell> cells_of(const Experiment& experiment);

/// The same for all cells that differ in nothing but the policy.
std::string bound_id(const Experiment& experiment, const ExperimentCell& cell);

/// What makes the cell this one and no other: `docs/guide/experiments.md` has the keys.
boost::json::object to_json(const Experiment& experiment, const ExperimentCell& cell);

/// `parts` in one file's name: as they are, with `~` between them, where they are short and have
/// nothing but letters, digits and ._=,+- in them; else with a sum of what they are.
std::string file_name_of(const std::vector<std::string>& parts);

}  // namespace vma
