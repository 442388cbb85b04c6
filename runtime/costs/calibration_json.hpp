#pragma once

#include "base/json.hpp"

#include <vma/calibration.hpp>
#include <vma/location.hpp>

#include <boost/json/object.hpp>

#include <cstddef>

namespace vma {

/// Adds the gaps as members to the JSON of a calibration, or of a recording's machine.
void write_gaps(boost::json::object& json, const LaunchGaps& gaps);
/// None if missing, as in older files. Throws: Error{invalid_argument}, like the reader.
LaunchGaps read_gaps(JsonReader& json, std::size_t gpus);

/// Adds the links as members to the JSON of a calibration, or of a recording's machine.
void write_peer_links(boost::json::object& json, const PeerLinks& links);
/// Empty if missing, as in older files. Throws: Error{invalid_argument}, like the reader.
PeerLinks read_peer_links(JsonReader& json, std::size_t gpus);

}  // namespace vma
