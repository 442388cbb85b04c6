#pragma once

#include "machine/json_reader.hpp"

#include <vma/peer_links.hpp>

#include <boost/json/object.hpp>

#include <cstddef>

namespace vma {

/// Adds the links as members to the JSON of a calibration, or of a recording's machine.
void write_peer_links(boost::json::object& json, const PeerLinks& links);
/// Empty if missing, as in older files. Throws: Error{invalid_argument}, like the reader.
PeerLinks read_peer_links(JsonReader& json, std::size_t gpus);

}  // namespace vma
