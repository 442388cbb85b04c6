#pragma once

#include "lab/experiments/experiment.hpp"

#include <string>

namespace vma {

/// Reads an experiment's file, resolves all names in it, and creates each machine, policy and
/// router once as a check. For traces it only checks that the files exist. Throws:
/// Error{invalid_argument} with the file, the path of the key and the reason.
Experiment read_experiment(const std::string& file);

}  // namespace vma
