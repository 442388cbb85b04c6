#pragma once

#include "machine/topology.hpp"
#include "memory/memory.hpp"
#include "migrate/gates/attached_streams.hpp"
#include "migrate/migration/requested_range.hpp"

#include <vma/group.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace vma {

/// The ranges that the requests name, in their order. Throws: Error that names the request:
/// {unknown_pointer}; {invalid_argument} for an unknown place, a range that is not within the
/// allocation, and a chunk that another request sends elsewhere.
std::vector<RequestedRange> resolve_requests(std::span<const MoveRequest> requests, Memory& memory,
                                             const Topology& topology, const char* call);

/// Calls `body`. Throws: what it throws; an Error of it names the request.
void for_request(std::size_t which, const char* call, const std::function<void()>& body);

/// The report of a group of which nothing has moved yet.
GroupReport report_of(std::span<const MoveRequest> requests);

}  // namespace vma
