#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vma::interpose {

/// The most that vmart may have on the GPU; none without a limit. It may change at any time, by the
/// control socket. Loads vmart if a limit was set for the program, which may ask before it
/// allocates.
std::optional<std::uint64_t> capacity_of(int device) noexcept;

/// Whether memory for which the GPU has no room goes to other places.
bool spills(int device) noexcept;

/// What the program is told of a GPU's memory under the limit, unless it may overcommit: as though
/// the GPU were so large, and all that the program has allocated there lay there. Both hold what
/// the program would be told otherwise.
void limit_memory_info(int device, std::size_t& free_bytes, std::size_t& total_bytes) noexcept;

}  // namespace vma::interpose
