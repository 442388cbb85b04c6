#pragma once

#include "abi/run_table.hpp"
#include "interpose/limits.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_pools.hpp"
#include "interpose/program_streams.hpp"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace vma::interpose {

/// The size of all handles that stand for memory of vmart, by the GPU for which they were created.
/// Any thread.
class HandleBytes {
 public:
  std::uint64_t of(int device) noexcept;
  void change(int device, long long by) noexcept;

 private:
  std::mutex mutex_;
  std::map<int, std::uint64_t> bytes_;
};

/// What handles work on. All outlive them.
struct HandleParts {
  ProgramStreams& streams;
  ProgramMemory& memory;
  ProgramPools& pools;
  const Limits& limits;
  HandleBytes& bytes;
};

/// A handle of cuMemCreate that stands for memory of vmart: a backing. For uses that vmart cannot
/// serve, there is a handle of the driver for the same memory. Any thread.
class ProgramHandle {
 public:
  /// Null if the driver is to create it: see `ProgramMappings::create`. Blocks: for memory.
  static std::shared_ptr<ProgramHandle> create(const HandleParts& parts, std::size_t bytes,
                                               const CUmemAllocationProp& properties,
                                               bool& full) noexcept;
  ~ProgramHandle();
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return properties_.location.id; }
  const CUmemAllocationProp& properties() const noexcept { return properties_; }

  /// Maps it by vmart, and sets `by_vmart`, or by the driver.
  CUresult map(CUdeviceptr begin, std::size_t bytes, std::size_t offset, unsigned long long flags,
               bool& by_vmart) noexcept;
  /// Ends what vmart has mapped. Blocks: until a running move has ended.
  CUresult unmap() noexcept;
  /// Sets rights where vmart has mapped it.
  CUresult set_access(const CUmemAccessDesc* entries, std::size_t count) noexcept;
  CUresult get_access(unsigned long long* flags, const CUmemLocation& location) noexcept;
  /// The driver's own handle of the memory, for calls that vmart does not serve. From now on, the
  /// memory is the driver's, or stays in place for good.
  CUresult drivers_handle(CUmemGenericAllocationHandle& out) noexcept;
  /// Whether the memory is the driver's alone.
  bool is_drivers() noexcept;

 private:
  ProgramHandle(const HandleParts& parts, std::size_t bytes, const CUmemAllocationProp& properties,
                vmart_backing* backing) noexcept
      : parts_(parts), bytes_(bytes), properties_(properties), backing_(backing) {}

  /// Counts the backing as memory of the program if `sign` is 1, and no longer if it is -1.
  void note_bytes(int sign) const noexcept;

  // Requires, for all of these: the caller holds `mutex_`.
  CUresult map_backing(CUdeviceptr begin) noexcept;
  CUresult unmap_backing() noexcept;
  CUresult leave_to_driver() noexcept;
  CUresult replace_by_driver(const std::optional<ProgramStreams::Standstill>& standstill) noexcept;
  CUresult show_drivers(CUmemGenericAllocationHandle made) noexcept;
  CUresult copy_to_driver(CUdeviceptr begin, CUmemGenericAllocationHandle target) noexcept;
  CUresult share() noexcept;
  CUresult share_at(CUdeviceptr begin) noexcept;
  CUresult share_unmapped() noexcept;
  CUresult pin_at_home() noexcept;
  bool roll_back(CUdeviceptr begin) noexcept;
  bool is_home(CUdeviceptr inside) noexcept;

  CUresult create_in_driver(CUmemGenericAllocationHandle& out) noexcept;

  const HandleParts parts_;
  const std::size_t bytes_;
  const CUmemAllocationProp properties_;
  std::mutex mutex_;                          // Held while it is mapped, unmapped and shared.
  vmart_backing* backing_;                    // Null once the memory is the driver's.
  CUmemGenericAllocationHandle drivers_ = 0;  // Zero until the driver knows the memory.
  CUdeviceptr mapped_at_ = 0;                 // By vmart; zero: nowhere.
  CUdeviceptr replaced_at_ = 0;               // By the driver, where vmart had mapped it before.
  bool was_mapped_ = false;                   // So it may have contents.
  std::map<int, CUmemAccess_flags> access_;   // By the GPU; as the program has set it.
};

}  // namespace vma::interpose
