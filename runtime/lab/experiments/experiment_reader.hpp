#pragma once

#include "lab/experiments/experiment.hpp"

#include <string>

namespace vma {

/// Reads an experiment's file, looks up all that it names and makes each machine, policy and router
/// once. Files of traces are only looked for. Throws: Error{invalid_argument} that names the file,
/// the line, the place in it and the reason.
Experiment read_experiment(const std::string& file);

}  // namespace vma
