#pragma once

#include "machine/json_reader.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace vma {

/// The list at `key`, one number from 0 to `most` for each GPU; empty if missing: older files lack
/// the key. Throws: Error{invalid_argument}, as the reader does.
std::vector<double> read_gpu_numbers(JsonReader& json, std::string_view key, std::size_t gpus,
                                     double most);

}  // namespace vma
