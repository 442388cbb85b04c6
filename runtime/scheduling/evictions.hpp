#pragma once

#include "memory/memory.hpp"
#include "scheduling/scheduler.hpp"

#include <vma/place.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace vma {

struct EvictionReport {
  std::uint64_t bytes_moved = 0;     ///< Away from the place.
  std::uint64_t bytes_released = 0;  ///< To the driver, with what was cached.
  std::uint64_t bytes_over = 0;      ///< Still above the capacity.
};

/// What is above the capacity of a place moves away, the coldest first, and goes back to the
/// driver; it stays where it is if it may not move, or if there is no room elsewhere. Blocks: as
/// long as something still leaves and `may_go_on`.
EvictionReport evict_above_capacity(Memory& memory, Scheduler& scheduler, Place at,
                                    const std::function<bool()>& may_go_on);

/// Moves so much away from a place, the coldest first, and gives it back to the driver with all
/// that is cached there. Returns how many bytes have moved. Blocks: until nothing more leaves.
std::uint64_t make_room(Memory& memory, Scheduler& scheduler, Place at, std::uint64_t bytes);

/// For people.
std::string text_of(const EvictionReport& report, Place at);

}  // namespace vma
