#pragma once

#include "machine/json_reader.hpp"

#include <vma/calibration.hpp>

#include <boost/json/object.hpp>

#include <cstddef>

namespace vma {

/// As members of the JSON of a calibration, and of a recording's machine.
void write_gaps(boost::json::object& json, const LaunchGaps& gaps);
/// None where they are missing: files of before have none. Throws: Error{invalid_argument}, as the
/// reader refuses.
LaunchGaps read_gaps(JsonReader& json, std::size_t gpus);

}  // namespace vma
