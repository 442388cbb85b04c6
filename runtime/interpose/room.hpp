#pragma once

#include "interpose/limits.hpp"
#include "interpose/program_pools.hpp"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vma::interpose {

/// Makes room for one call that the driver has refused with "out of memory": first releases what
/// vmart keeps for later allocations, and then, if memory may spill, evicts the coldest. Never
/// makes more room than the call can need.
class RoomMaker {
 public:
  RoomMaker(const Limits& limits, ProgramPools& pools, const RoomNeed& need) noexcept
      : limits_(limits), pools_(pools), need_(need) {}

  /// Returns true if the call is worth another try. Blocks: for the moves.
  bool make() noexcept;

 private:
  struct Memory {
    std::uint64_t free_bytes = 0;
    std::uint64_t total_bytes = 0;
  };

  int device_of(const RoomNeed& need) const noexcept;
  static std::optional<Memory> memory_of(int device) noexcept;
  std::optional<std::uint64_t> wanted_bytes() const noexcept;
  bool release_cached() noexcept;
  bool evict(const Memory& memory) noexcept;

  const Limits& limits_;
  ProgramPools& pools_;
  const RoomNeed need_;
  int device_ = RoomNeed::nowhere;
  bool asked_ = false;    // `make` was called, and `device_` is known.
  std::size_t step_ = 0;  // Which amount of free memory is wanted next.
};

/// Makes a call of the driver, and room for another try if it has none: vmart gives back what it
/// keeps for later allocations, which counts as free, and evicts memory that may spill.
template <typename Call>
CUresult with_room(const Limits& limits, ProgramPools& pools, const RoomNeed& need, Call call) {
  constexpr int tries_max = 14;  // Other threads may take the room that was made.
  CUresult result = call();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  RoomMaker room(limits, pools, need);
  for (int i = 0; i < tries_max && result == CUDA_ERROR_OUT_OF_MEMORY && room.make(); ++i) {
    result = call();
  }
  return result;
}

}  // namespace vma::interpose
