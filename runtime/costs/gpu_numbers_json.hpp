#pragma once

#include "machine/json_reader.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace vma {

/// The list at `key`, one number from 0 to `most` per GPU; empty if missing, as in older files.
/// Throws: Error{invalid_argument}, like the reader.
std::vector<double> read_gpu_numbers(JsonReader& json, std::string_view key, std::size_t gpus,
                                     double most);

}  // namespace vma
