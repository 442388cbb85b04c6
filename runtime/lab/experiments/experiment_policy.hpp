#pragma once

#include "lab/experiments/experiment.hpp"

#include <vma/policy.hpp>

#include <memory>
#include <string>

namespace vma {

/// A policy of the experiment, built in or of a library; any thread. A library is loaded once and
/// stays what it was, whatever becomes of its file. Throws: Error{invalid_argument}.
std::unique_ptr<Policy> make_policy(const Experiment& experiment, const std::string& text);

}  // namespace vma
