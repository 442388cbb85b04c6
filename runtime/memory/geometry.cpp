#include "memory/geometry.hpp"

#include <vma/error.hpp>

#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace vma {
namespace {

// In granules, which are 2 MiB on GPUs: chunks of 256, 128, 64 and 32 MiB there. From 512 MiB on a
// grant costs ten times as much, so chunks stay well below.
constexpr std::uint64_t chunk_granules_max = 128;
constexpr std::uint64_t host_chunk_granules = 16;
// A grant to the GPU that has the memory costs the same whatever the size: 8 GiB on GPUs.
constexpr std::uint64_t lone_chunk_granules = 4096;
// Of memory that the CPU fetches by faults, on GPUs 4 to 16 MiB: what it walks through is cheaper
// in large chunks, because each costs the driver 0.2 ms on H200 besides 30 us a MiB; what it
// touches here and there, in small ones.
constexpr std::uint64_t faulting_granules_min = 2, faulting_granules_max = 8;
constexpr std::uint64_t slots_max = 1 << 22;  // Each takes about a hundred bytes of our memory.

/// Few sizes, so that the cache hits: powers of two and the values half-way between, in granules.
std::uint64_t size_class(std::uint64_t granules) {
  for (std::uint64_t step = 1;; step *= 2) {
    if (granules <= step) return step;
    if (step >= 2 && granules <= step + step / 2) return step + step / 2;
  }
}

std::uint64_t chosen_granules(std::uint64_t granules, Place at) {
  const std::uint64_t limit =
      at.kind == Place::Kind::host ? host_chunk_granules : chunk_granules_max;
  if (granules <= limit) return size_class(granules);
  // Four chunks or more, so that copying one overlaps with switching another.
  std::uint64_t chunk = limit;
  while (chunk > 32 && granules < 4 * chunk) chunk /= 2;
  return chunk;
}

/// A quarter of the allocation at most, in powers of two, so that the cache hits.
std::uint64_t faulting_granules(std::uint64_t granules) {
  return std::clamp(std::bit_floor(granules / 4), faulting_granules_min, faulting_granules_max);
}

}  // namespace

std::uint64_t largest_chunk_bytes(Place at, std::uint64_t granule_bytes) {
  return granule_bytes * (at.kind == Place::Kind::host ? host_chunk_granules : chunk_granules_max);
}

Geometry plan_geometry(std::uint64_t size_bytes, std::uint64_t chunk_bytes, Place at,
                       std::uint64_t granule_bytes, std::size_t gpus) {
  constexpr std::uint64_t size_bytes_max = std::uint64_t{1}
                                           << 46;  // Well inside the address space.
  if (size_bytes == 0 || size_bytes > size_bytes_max) {
    throw Error(ErrorKind::invalid_argument, "vma::alloc",
                fmt::format("{} bytes; ask for 1 to {}", size_bytes, size_bytes_max));
  }
  const bool lone = at.kind == Place::Kind::gpu && gpus == 1;
  const std::uint64_t largest = granule_bytes * (lone ? lone_chunk_granules : chunk_granules_max);
  if (chunk_bytes == largest_chunks) {
    chunk_bytes = largest;
  } else if (chunk_bytes > chunk_granules_max * granule_bytes) {
    throw Error(ErrorKind::invalid_argument, "vma::alloc",
                fmt::format("chunk_bytes is {}; the maximum is {}", chunk_bytes,
                            chunk_granules_max * granule_bytes));
  }
  const std::uint64_t granules = round_up(size_bytes, granule_bytes) / granule_bytes;
  const std::uint64_t chunk = chunk_bytes != 0
                                  ? round_up(chunk_bytes, granule_bytes) / granule_bytes
                                  : chosen_granules(granules, at);
  Geometry geometry;
  geometry.chunk_bytes = chunk * granule_bytes;
  geometry.slots = (granules + chunk - 1) / chunk;
  if (geometry.slots > slots_max) {
    throw Error(
        ErrorKind::invalid_argument, "vma::alloc",
        fmt::format(
            "{} bytes in chunks of {}; at most {} chunks are possible, so use larger chunks",
            size_bytes, geometry.chunk_bytes, slots_max));
  }
  const std::uint64_t rest = granules - (geometry.slots - 1) * chunk;
  // What is larger than other chunks has no size class: it is not cached, and its padding costs.
  const std::uint64_t tail = rest > chunk_granules_max ? rest : size_class(rest);
  geometry.tail_bytes = std::min(tail, chunk) * granule_bytes;
  return geometry;
}

Geometry plan_geometry(std::uint64_t size_bytes, const AllocOptions& options, Place at,
                       std::uint64_t granule_bytes, std::size_t gpus) {
  std::uint64_t chunk_bytes = options.chunk_bytes;
  if (chunk_bytes == 0 && options.cpu_access == CpuAccess::fault) {
    chunk_bytes = faulting_granules(size_bytes / granule_bytes) * granule_bytes;
  }
  return plan_geometry(size_bytes, chunk_bytes, at, granule_bytes, gpus);
}

Geometry plan_exact_geometry(std::uint64_t size_bytes, Place at, std::uint64_t granule_bytes) {
  if (size_bytes % granule_bytes != 0) {
    throw Error(ErrorKind::invalid_argument, "vma::Backings",
                fmt::format("{} bytes; ask for a multiple of {}", size_bytes, granule_bytes));
  }
  const std::uint64_t largest = largest_chunk_bytes(at, granule_bytes);
  Geometry geometry =
      plan_geometry(size_bytes, size_bytes <= largest ? size_bytes : 0, at, granule_bytes);
  geometry.tail_bytes = size_bytes - (geometry.slots - 1) * geometry.chunk_bytes;
  return geometry;
}

}  // namespace vma
