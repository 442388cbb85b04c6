#pragma once

#include "base/json.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

#include <boost/json/object.hpp>

#include <cstddef>

namespace vma {

/// What the costs of a machine are written in. Matrices of accesses have a row for each place in a
/// calibration, and for each GPU in a recording, whose numbers have no bounds of their own.
enum class CostsIn { calibration, recording };

/// Adds a matrix for each cost as members to the JSON.
void write_costs(boost::json::object& json, const MachineCosts& costs, CostsIn in);
/// Sets all costs, and ranks them. Requires: `costs` has the right places. Throws:
/// Error{invalid_argument}, like the reader.
void read_costs(JsonReader& json, MachineCosts& costs, CostsIn in);

/// Adds the gaps as members to the JSON of a calibration, or of a recording's machine.
void write_gaps(boost::json::object& json, const LaunchGaps& gaps);
/// None if missing, as in older files. Throws: Error{invalid_argument}, like the reader.
LaunchGaps read_gaps(JsonReader& json, std::size_t gpus);

/// Adds the links as members to the JSON of a calibration, or of a recording's machine.
void write_peer_links(boost::json::object& json, const PeerLinks& links);
/// Empty if missing, as in older files. Throws: Error{invalid_argument}, like the reader.
PeerLinks read_peer_links(JsonReader& json, std::size_t gpus);

}  // namespace vma
