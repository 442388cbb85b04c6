#include "lab/experiments/hbm_share.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace vma {

std::uint64_t hbm_of_share(double share, const TraceRoom& room, std::uint64_t chunk_bytes,
                           std::size_t gpus) {
  VMART_CHECK(share >= hbm_share_min && share <= hbm_share_max, "a share is within its bounds");
  VMART_CHECK(gpus > 0 && chunk_bytes > 0, "there are GPUs, and chunks have bytes");
  const std::uint64_t chunk = std::max<std::uint64_t>(room.chunk_max(chunk_bytes), 1);
  const double bytes = share * static_cast<double>(room.peak_bytes) / static_cast<double>(gpus);
  const double chunks = std::ceil(bytes / static_cast<double>(chunk));
  // No machine has this much; the limit avoids an overflow below.
  constexpr double bytes_max = 1e18;
  if (chunks * static_cast<double>(chunk) > bytes_max) return static_cast<std::uint64_t>(bytes_max);
  return std::max(static_cast<std::uint64_t>(chunks), hbm_chunks_min) * chunk;
}

std::uint64_t share_hbm(ReplayMachine& machine, double share, const TraceRoom& room,
                        std::uint64_t chunk_bytes) {
  const std::uint64_t bytes = hbm_of_share(share, room, chunk_bytes, machine.costs.gpus());
  std::uint64_t most = 0;
  for (PlaceState& place : machine.places) {
    if (place.location.kind != Location::Kind::gpu) continue;
    place.capacity_bytes = std::min(place.capacity_bytes, bytes);
    most = std::max(most, place.capacity_bytes);
  }
  return most;
}

}  // namespace vma
