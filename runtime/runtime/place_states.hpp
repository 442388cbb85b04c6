#pragma once

#include "runtime/runtime_parts.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// The places of a runtime, GPUs first, with the bytes that chunks may fill; none of them used.
///
/// A GPU has what is free there now and what the runtime's allocations and cache hold, less a
/// hundred-and-twenty-eighth of its HBM; where no context is open yet, all of its HBM less a GiB,
/// or a quarter of a small one. A host node has seven eighths of its memory, UINT64_MAX where
/// nobody knows. A capacity that the user set, less what the runtime itself holds, bounds both.
std::vector<PlaceState> place_states(Driver& driver, const Topology& topology,
                                     const Ledger& ledger);

/// All memory of a place, whoever uses it; 0 where nobody knows.
std::uint64_t place_bytes(Driver& driver, const Topology& topology, Location at);

/// Memory of a NUMA node, by the kernel's files.
std::optional<std::uint64_t> host_node_bytes(
    int node, const std::string& folder = "/sys/devices/system/node");

}  // namespace vma
