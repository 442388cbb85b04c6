#pragma once

#include "machine/json_reader.hpp"

#include <string>
#include <vector>

namespace vma {

/// The policies that {"policy": "cost_benefit", "sweep": {"margin": [1, 2], "horizon": ["1s"]}}
/// stands for, as texts: every combination, the last parameter changing first. Throws:
/// Error{invalid_argument} of the reader.
std::vector<std::string> read_sweep(JsonReader& policy);

/// A number, flag or text as a parameter's value; empty for what is none of these.
std::string sweep_text(const boost::json::value& value);

}  // namespace vma
