#pragma once

#include "memory/allocation.hpp"

#include <vma/place.hpp>
#include <vma/options.hpp>

#include <cstdint>

namespace vma {

/// How an allocation of `size_bytes` is cut on this machine. Small ones are one chunk of the next
/// size class; larger ones have chunks of 64 to 256 MiB by size, or 32 MiB if the at is a host
/// node, because host memory maps page by page (scaled with the granularity, 2 MiB on GPUs).
/// `gpus` of the machine: with one, `largest_chunks` are larger. Throws: Error{invalid_argument}.
Geometry plan_geometry(std::uint64_t size_bytes, std::uint64_t chunk_bytes, Place at,
                       std::uint64_t granule_bytes, std::size_t gpus = 2);
/// The same by the options: chunks of memory that the CPU fetches by faults are small, since it
/// waits for two of them: on GPUs 16 MiB from 64 MiB on, 8 MiB from 32 MiB on, else 4 MiB.
Geometry plan_geometry(std::uint64_t size_bytes, const AllocOptions& options, Place at,
                       std::uint64_t granule_bytes, std::size_t gpus = 2);
/// The same without padding: `size_bytes` is a multiple of the granularity, and up to the largest
/// chunk it is one chunk.
Geometry plan_exact_geometry(std::uint64_t size_bytes, Place at, std::uint64_t granule_bytes);
/// The largest chunk that `plan_geometry` chooses by itself at `at`.
std::uint64_t largest_chunk_bytes(Place at, std::uint64_t granule_bytes);

}  // namespace vma
