#pragma once

#include "migrate/migration/requests.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/group.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace vma {

/// The chunks that the requests name, in their order; see `MoveRequest`. The only place that knows
/// what memory a move names. Throws: Error that names the request, if there are several:
/// {unknown_pointer}; {invalid_argument} for an unknown place, a range that is not within the
/// allocation, and a chunk that another request sends elsewhere.
std::vector<RequestedRange> resolve_requests(std::span<const MoveRequest> requests,
                                             const Machinery& parts, const char* call);

/// Calls `body`. Throws: what it throws; an Error of it names the request.
void for_request(std::size_t which, const char* call, const std::function<void()>& body);

}  // namespace vma
