#include "runtime/move_requests.hpp"

#include "migrate/migration/group.hpp"
#include "runtime/argument_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace vma {
namespace {

/// Chunks that were already sent to a place, by the first of them.
struct Sent {
  std::size_t end = 0;
  std::size_t request = 0;
  Location to;
};

/// Refuses a chunk that goes to two places. For each allocation, ranges that do not overlap.
class Sendings {
 public:
  void add(std::size_t which, const RequestedRange& wanted, const char* call) {
    std::map<std::size_t, Sent>& sent = sent_[wanted.allocation.get()];
    std::size_t first = wanted.range.first;
    while (first < wanted.range.end) {
      auto next = sent.upper_bound(first);
      if (next != sent.begin() && std::prev(next)->second.end > first) --next;
      if (next == sent.end() || next->first >= wanted.range.end) {
        sent[first] = {wanted.range.end, which, wanted.to};
        return;
      }
      if (next->second.to != wanted.to)
        refuse(std::max(first, next->first), next->second, wanted, call);
      if (next->first > first) sent[first] = {next->first, which, wanted.to};
      first = next->second.end;
    }
  }

 private:
  [[noreturn]] static void refuse(std::size_t slot, const Sent& other, const RequestedRange& wanted,
                                  const char* call) {
    throw Error(
        ErrorKind::invalid_argument, call,
        fmt::format("the chunk at offset {} of the allocation at {:#x} would go to {} and, "
                    "by request {}, to {}. Ranges are extended to whole chunks of {} bytes",
                    slot * wanted.allocation->geometry().chunk_bytes,
                    to_integer(wanted.allocation->begin()), to_string(wanted.to), other.request,
                    to_string(other.to), wanted.allocation->geometry().chunk_bytes));
  }

  std::map<const Allocation*, std::map<std::size_t, Sent>> sent_;
};

/// All that the pointer names: an allocation, or in a pool a block.
SlotRange whole(const Machinery& parts, const Allocation& allocation, const void* pointer,
                const char* call) {
  if (parts.pools.segment_around(address_of(pointer)) == nullptr) {
    return {0, allocation.geometry().slots};
  }
  if (const auto block = parts.pools.block_around(address_of(pointer))) {
    return slots_of(allocation, to_pointer(block->segment), block->offset, block->size_bytes, call);
  }
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("no block of a pool is allocated at {}; name a range to move a part of "
                          "the segment at {:#x}",
                          fmt::ptr(pointer), to_integer(allocation.begin())));
}

RequestedRange resolve(const MoveRequest& request, const Machinery& parts, const char* call) {
  parts.topology.require(request.to, call);
  std::shared_ptr<Allocation> allocation = parts.memory.require_around(request.pointer, call);
  check_usable(*allocation, call);
  check_no_hook(*allocation, call);
  const SlotRange range =
      request.offset == 0 && request.bytes == 0
          ? whole(parts, *allocation, request.pointer, call)
          : slots_of(*allocation, request.pointer, request.offset, request.bytes, call);
  return {std::move(allocation), range, request.to};
}

}  // namespace

std::vector<RequestedRange> resolve_requests(std::span<const MoveRequest> requests,
                                             const Machinery& parts, const char* call) {
  std::vector<RequestedRange> wanted;
  wanted.reserve(requests.size());
  if (requests.size() == 1) {
    wanted.push_back(resolve(requests.front(), parts, call));
    return wanted;
  }
  Sendings sendings;
  for (std::size_t which = 0; which < requests.size(); ++which) {
    for_request(which, call, [&] {
      wanted.push_back(resolve(requests[which], parts, call));
      sendings.add(which, wanted.back(), call);
    });
  }
  return wanted;
}

void for_request(std::size_t which, const char* call, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error(error.kind(), call, fmt::format("request {}: {}", which, detail_of(error)),
                error.native());
  }
}

}  // namespace vma
