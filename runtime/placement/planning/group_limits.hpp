#pragma once

#include "base/units.hpp"

#include <cstddef>
#include <cstdint>

namespace vma {

/// Of the accepted moves that are one migration: as long as it runs, the mover does nothing else to
/// the allocation, and each chunk waits for the application's work to come to a stop.
constexpr std::size_t group_chunks_max = 4;
constexpr std::uint64_t group_bytes_max = 256 * MiB;

}  // namespace vma
