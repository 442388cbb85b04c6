#pragma once

#include "base/json.hpp"

#include <string>
#include <vector>

namespace vma {

/// Expands a sweep into policies: {"policy": "cost_benefit", "sweep": {"margin": [1, 2], "horizon":
/// ["1s"]}} gives every combination as a text, with the last parameter changing fastest. Throws:
/// Error{invalid_argument} from the reader.
std::vector<std::string> read_sweep(JsonReader& policy);

/// A number, boolean or string as the value of a parameter; empty for other types.
std::string sweep_text(const boost::json::value& value);

}  // namespace vma
