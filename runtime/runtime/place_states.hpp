#pragma once

#include "memory/memory.hpp"
#include "scheduling/scheduler.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// The places of a runtime, GPUs first, with the bytes that chunks may use; none of them used.
///
/// A GPU offers what is free there now plus what the runtime's allocations and cache hold, minus
/// 1/128 of its HBM; without an open context, all of its HBM minus a GiB, or minus a quarter if it
/// is small. A host node offers seven eighths of its memory, UINT64_MAX if that is unknown. A
/// capacity set by the user, minus what the runtime itself holds, bounds both.
std::vector<PlaceState> place_states(Driver& driver, const Topology& topology,
                                     const Ledger& ledger);

/// To the scheduler, which places memory by them: what the runtime itself has taken since leaves
/// less.
void tell_capacities(Driver& driver, const Memory& memory, Scheduler& scheduler);

/// All memory of a place, used or not; 0 if unknown.
std::uint64_t place_bytes(Driver& driver, const Topology& topology, Place at);

/// Memory of a NUMA node, from the kernel's files.
std::optional<std::uint64_t> host_node_bytes(
    int node, const std::string& folder = "/sys/devices/system/node");

}  // namespace vma
