#pragma once

#include "memory/memory.hpp"
#include "migrate/migration/requests.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vma {

/// Asks for room when a move finds its target full, and counts the moves that wait for it: as many
/// more may run, since one of these may make the room. Any thread.
class RoomRequests {
 public:
  explicit RoomRequests(Memory& memory) : memory_(memory) {}

  /// Like `Memory::with_room`, for a move on these terms. Requires: as `ask`.
  template <typename Body>
  void with_room(MemoryPressure::Want& want, const MoveTerms& terms, Location at,
                 std::uint64_t size_bytes, Body&& body);
  /// Whether a retry may find room. Blocks: until room is made, perhaps by a move in the
  /// background. Requires: the caller holds no turn, and no copier.
  bool ask(MemoryPressure::Want& want, Location at, std::uint64_t size_bytes);
  /// The number of moves that wait for room now.
  std::size_t waiting() const noexcept { return waiting_; }

 private:
  Memory& memory_;
  std::atomic<std::size_t> waiting_{0};
};

template <typename Body>
void RoomRequests::with_room(MemoryPressure::Want& want, const MoveTerms& terms, Location at,
                             std::uint64_t size_bytes, Body&& body) {
  const bool may_ask = terms.asks_for_room && at.kind == Location::Kind::gpu;
  const auto request = [&](Location full, std::uint64_t bytes) {
    return may_ask && ask(want, full, bytes);
  };
  memory_.with_room(request, at, size_bytes, std::forward<Body>(body));
}

}  // namespace vma
