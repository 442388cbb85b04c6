#pragma once

#include <cuda.h>

#include <array>
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

/// Changes what the program is told of a GPU's memory to what holds under its limit, unless memory
/// may be overcommitted: the GPU is as large as the limit, and contains all that the program has
/// allocated on it.
void limit_memory_info(int device, std::size_t& free_bytes, std::size_t& total_bytes) noexcept;

/// How much a call of the program needs, and of which GPU. The driver only says that there is no
/// room.
struct RoomNeed {
  /// For an allocation, or for work, whose need is not known, on the GPU of the stream. Stream zero
  /// is one of the current context.
  static RoomNeed on_stream(CUstream stream, std::uint64_t bytes = 0) noexcept {
    return {bytes, stream, nullptr, std::nullopt};
  }
  static RoomNeed in_current_context(std::uint64_t bytes = 0) noexcept {
    return on_stream(nullptr, bytes);
  }
  static RoomNeed at(const CUmemLocation& location, std::uint64_t bytes) noexcept {
    const bool gpu = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return {bytes, nullptr, nullptr, gpu ? location.id : nowhere};
  }

  static constexpr int nowhere = -1;  ///< Not a GPU, so that no room can be made.

  std::uint64_t bytes = 0;    ///< Zero: not known.
  CUstream stream = nullptr;  ///< Its GPU, unless one of the next two says which.
  CUmemoryPool pool = nullptr;
  std::optional<int> device;
};

/// Makes room for one call that the driver has refused with "out of memory": first releases what
/// vmart keeps for later allocations, and then, if memory may spill, evicts the coldest. Never
/// makes more room than the call can need.
class RoomMaker {
 public:
  explicit RoomMaker(const RoomNeed& need) noexcept : need_(need) {}

  /// Returns true if the call is worth another try. Blocks: for the moves.
  bool make() noexcept;

 private:
  struct Memory {
    std::uint64_t free_bytes = 0;
    std::uint64_t total_bytes = 0;
  };

  static int device_of(const RoomNeed& need) noexcept;
  static std::optional<Memory> memory_of(int device) noexcept;
  std::optional<std::uint64_t> wanted_bytes() const noexcept;
  bool release_cached() noexcept;
  bool evict(const Memory& memory) noexcept;

  const RoomNeed need_;
  int device_ = RoomNeed::nowhere;
  bool asked_ = false;    // `make` was called, and `device_` is known.
  std::size_t step_ = 0;  // Which amount of free memory is wanted next.
};

}  // namespace vma::interpose
