#pragma once

#include "machine/json_reader.hpp"

#include <vma/peer_links.hpp>

#include <boost/json/object.hpp>

#include <cstddef>

namespace vma {

/// As members of the JSON of a calibration, and of a recording's machine.
void write_peer_links(boost::json::object& json, const PeerLinks& links);
/// Empty if they are missing: older files lack them. Throws: Error{invalid_argument}, as the reader
/// does.
PeerLinks read_peer_links(JsonReader& json, std::size_t gpus);

}  // namespace vma
