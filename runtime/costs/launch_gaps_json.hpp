#pragma once

#include "machine/json_reader.hpp"

#include <vma/calibration.hpp>

#include <boost/json/object.hpp>

#include <cstddef>

namespace vma {

/// As members of the JSON of a calibration, and of a recording's machine.
void write_gaps(boost::json::object& json, const LaunchGaps& gaps);
/// None if they are missing: older files lack them. Throws: Error{invalid_argument}, as the reader
/// does.
LaunchGaps read_gaps(JsonReader& json, std::size_t gpus);

}  // namespace vma
