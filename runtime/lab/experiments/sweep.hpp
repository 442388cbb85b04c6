#pragma once

#include "machine/json_reader.hpp"

#include <string>
#include <vector>

namespace vma {

/// The policies, as texts, that {"policy": "cost_benefit", "sweep": {"margin": [1, 2], "horizon":
/// ["1s"]}} expands to: every combination, the last parameter changing fastest. Throws:
/// Error{invalid_argument} of the reader.
std::vector<std::string> read_sweep(JsonReader& policy);

/// A number, flag or text as a parameter's value; empty for other types.
std::string sweep_text(const boost::json::value& value);

}  // namespace vma
