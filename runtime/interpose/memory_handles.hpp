#pragma once

#include "abi/run_table.hpp"
#include "interpose/program_memory.hpp"

#include <cuda.h>

#include <atomic>
#include <compare>
#include <map>
#include <mutex>
#include <optional>

namespace vma::interpose {

/// The contents of a handle of vmart. Handles without its mark are the driver's.
struct MemoryHandle {
  static constexpr unsigned long long mark_of_ours = 0x3243'5049'5452'4d56;  // "VMRTIPC2"

  unsigned long long mark = 0;
  vmart_ipc_name name{};
  unsigned long long bytes = 0;  ///< As the program requested them.
  CUuuid gpu{};                  ///< On which the program allocated it.

  static std::optional<MemoryHandle> of(const CUipcMemHandle& handle) noexcept;
  CUipcMemHandle as_handle() const noexcept;
};

/// Memory that processes share by handles of vmart: what this process has exported, and what it has
/// opened of others. Any thread.
class MemoryHandles {
 public:
  MemoryHandles(ProgramStreams& streams, ProgramMemory& memory) noexcept
      : streams_(streams), memory_(memory) {}

  /// Writes a handle, the same one each time. Requires: `ProgramAllocation::has_handles`. Blocks:
  /// the first time, until the memory can leave the process, and like
  /// `ProgramMemory::without_pinned`.
  CUresult export_memory(const ProgramAllocation& memory, CUipcMemHandle* out) noexcept;

  /// Blocks: for the other process, at most some seconds.
  CUresult open(const MemoryHandle& handle, CUdeviceptr* out) noexcept;
  /// Returns nothing if it was not opened here. Blocks: like cuMemFree, if this is the last close.
  std::optional<CUresult> close(CUdeviceptr pointer) noexcept;
  /// Closes what was opened in the context, which is about to be destroyed.
  void close_all_of(CUcontext context) noexcept;

 private:
  struct Opened {
    vmart_ipc_name name{};
    CUcontext context = nullptr;
    int count = 0;
  };

  CUresult import(const MemoryHandle& handle, CUdeviceptr* out);

  ProgramStreams& streams_;
  ProgramMemory& memory_;
  std::mutex exporting_;  // One export at a time. Taken within `ProgramMemory::without_pinned`.
  std::mutex opening_;    // For `opened_`.
  std::map<CUdeviceptr, Opened> opened_;
};

}  // namespace vma::interpose
