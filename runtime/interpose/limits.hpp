#pragma once

#include "abi/run_table.hpp"
#include "interpose/program_streams.hpp"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vma::interpose {

/// What vmart may have on the GPUs, as it was set for the program and by the control socket. Any
/// thread.
class Limits {
 public:
  explicit Limits(const ProgramStreams& streams) noexcept : streams_(streams) {}

  /// Whether memory for which the GPU has no room goes to other places.
  bool spills(int device) const noexcept;
  /// How large the program is to believe the GPU: its limit, unless there is none or memory may be
  /// overcommitted.
  std::optional<std::uint64_t> told_capacity(int device) const noexcept;

 private:
  std::optional<std::uint64_t> capacity_of(int device) const noexcept;
  bool can_open(const RunTable& vmart) const noexcept;

  const ProgramStreams& streams_;
};

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

}  // namespace vma::interpose
