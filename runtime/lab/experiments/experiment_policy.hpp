#pragma once

#include "lab/experiments/experiment.hpp"

#include <vma/policy.hpp>

#include <memory>
#include <string>

namespace vma {

/// Creates a policy of the experiment, built in or from a library. A library is loaded once and
/// stays unchanged even if its file changes. Any thread. Throws: Error{invalid_argument}.
std::unique_ptr<Policy> make_policy(const Experiment& experiment, const std::string& text);

}  // namespace vma
