#pragma once

#include "interpose/program_handle.hpp"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace vma::interpose {

/// Memory that the program maps itself: its handles that stand for memory of vmart, where they are
/// mapped, and how much is left to the driver. If a function returns no result, the driver is to
/// serve the call. Any thread.
class ProgramMappings {
 public:
  ProgramMappings(ProgramStreams& streams, ProgramMemory& memory, ProgramPools& pools,
                  const Limits& limits) noexcept
      : parts_{streams, memory, pools, limits, bytes_} {}

  /// Returns zero if the driver is to create it: without `vmart run --vmm`, for an excluded
  /// library, if it is not plain memory of a GPU, if the driver refuses its properties, and where
  /// `ProgramMemory::allocate` leaves memory to the driver. Sets `full` if the
  /// driver must not create it either, because a limit holds for both. Blocks: for memory.
  CUmemGenericAllocationHandle create(std::size_t bytes, const CUmemAllocationProp* properties,
                                      unsigned long long flags, const void* caller,
                                      bool& full) noexcept;
  /// The driver has created a handle for the program.
  void note_drivers(CUmemGenericAllocationHandle handle, std::size_t bytes) noexcept;
  /// The size of all handles that stand for memory of vmart and were created for the GPU.
  std::uint64_t bytes_of(int device) noexcept { return bytes_.of(device); }
  /// One of the program's references to the handle ends.
  std::optional<CUresult> release(CUmemGenericAllocationHandle handle) noexcept;
  /// The handle, if it stands for memory of vmart.
  std::shared_ptr<ProgramHandle> find(CUmemGenericAllocationHandle handle) noexcept;
  /// One more reference to the handle that vmart has mapped around the address.
  std::optional<CUmemGenericAllocationHandle> retain(CUdeviceptr inside) noexcept;
  /// What vmart has mapped around the address.
  std::shared_ptr<ProgramHandle> find_mapped(CUdeviceptr inside) noexcept;

  std::optional<CUresult> map(CUdeviceptr begin, std::size_t bytes, std::size_t offset,
                              CUmemGenericAllocationHandle handle,
                              unsigned long long flags) noexcept;
  /// Divides the range among vmart's handles and the driver's.
  std::optional<CUresult> unmap(CUdeviceptr begin, std::size_t bytes) noexcept;
  std::optional<CUresult> set_access(CUdeviceptr begin, std::size_t bytes,
                                     const CUmemAccessDesc* entries, std::size_t count) noexcept;
  /// Replaces a handle that stands for memory of vmart by the driver's handle of that memory.
  CUresult to_drivers(CUmemGenericAllocationHandle& handle) noexcept;

 private:
  struct Known {
    std::shared_ptr<ProgramHandle> handle;
    int references = 1;
  };
  /// A part of a range of addresses.
  struct Piece {
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    std::shared_ptr<ProgramHandle> handle;  // Null: the driver's.
    bool whole = true;                      // Whether it is the handle's whole mapping.
  };

  // The driver's handles are small numbers or addresses.
  static constexpr CUmemGenericAllocationHandle first_handle = 0x764d'6172'7400'0001ULL;

  /// Empty if all of it is the driver's.
  std::vector<Piece> pieces(CUdeviceptr begin, std::size_t bytes);
  /// Counts the memory as the driver's if a use has left it to the driver.
  void note_if_left(CUmemGenericAllocationHandle handle, ProgramHandle& known) noexcept;
  bool driver_accepts(const CUmemAllocationProp& properties);
  void note_passed(long long change) noexcept;

  HandleBytes bytes_;
  const HandleParts parts_;
  std::shared_mutex mutex_;
  CUmemGenericAllocationHandle next_handle_ = first_handle;
  std::map<CUmemGenericAllocationHandle, Known> handles_;
  std::map<CUdeviceptr, std::shared_ptr<ProgramHandle>> mapped_;
  std::map<CUmemGenericAllocationHandle, std::size_t> passed_;  // The driver's, with bytes.
  std::uint64_t passed_bytes_ = 0;
  std::mutex types_mutex_;
  std::map<std::uint64_t, bool> accepted_types_;  // By what was asked for.
};

}  // namespace vma::interpose
