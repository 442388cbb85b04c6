#pragma once

#include "base/units.hpp"

#include <cstddef>
#include <cstdint>

namespace vma {

/// How many accepted moves form one migration: while it runs, the mover does nothing else with the
/// allocation, and each chunk waits for the application's work to stop.
constexpr std::size_t group_chunks_max = 4;
constexpr std::uint64_t group_bytes_max = 256 * MiB;

}  // namespace vma
