#pragma once

#include "interpose/driver_library.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_streams.hpp"

#include <cuda.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>

namespace vma::interpose {

/// The device addresses that a copy names.
class CopyOperands {
 public:
  /// A copy names two at most.
  void add(CUdeviceptr address) noexcept {
    if (count_ < addresses_.size()) addresses_[count_++] = address;
  }

  const CUdeviceptr* begin() const noexcept { return addresses_.data(); }
  const CUdeviceptr* end() const noexcept { return addresses_.data() + count_; }
  bool empty() const noexcept { return count_ == 0; }

 private:
  std::array<CUdeviceptr, 2> addresses_{};
  std::size_t count_ = 0;
};

/// Copies between GPUs in the legacy stream. CUDA documents that such a copy begins after all that
/// was submitted to either GPU before, and that later work of either GPU waits for it. The driver
/// keeps this order for its ordinary memory, but not for memory that can move (measured on H200),
/// so the legacy streams of the other GPUs are ordered here. Any thread.
class CrossCopies {
 public:
  CrossCopies(const ProgramStreams& streams, ProgramMemory& memory) noexcept
      : streams_(streams), memory_(memory) {}

  /// The context is about to be destroyed, and its event with it.
  void before_destruction(CUcontext context) noexcept;

  /// Exists around the call that copies. If an operand is memory of vmart, orders the copy with the
  /// work of the other GPUs. Does nothing while a stream captures.
  class Order {
   public:
    /// Blocks: only if the driver refuses events, for the work of the other GPUs.
    Order(CrossCopies& copies, const CopyOperands& operands) noexcept : copies_(copies) {
      if (!operands.empty()) begin(operands);
    }
    /// Blocks: only if the driver refuses events, for the copy.
    ~Order() {
      if (count_ != 0) end();
    }
    Order(const Order&) = delete;
    Order& operator=(const Order&) = delete;

   private:
    void begin(const CopyOperands& operands) noexcept;
    void end() noexcept;

    CrossCopies& copies_;
    CUcontext current_ = nullptr;
    std::array<CUcontext, 2> others_{};
    std::size_t count_ = 0;
  };

 private:
  /// Makes the legacy stream of `later` wait for the work that the one of `earlier` has now.
  void let_wait(CUcontext later, CUcontext earlier) noexcept;
  /// Records the context's event. Null if that fails. Requires: the context is current.
  CUevent record(const DriverLibrary& driver, CUcontext context) noexcept;
  CUevent event_of(const DriverLibrary& driver, CUcontext context) noexcept;

  const ProgramStreams& streams_;
  ProgramMemory& memory_;
  std::mutex mutex_;
  // One of each context is enough: a wait is for the last record, in the same stream, so a record
  // by another thread only adds work that was submitted earlier, too.
  std::map<CUcontext, CUevent> events_;
};

}  // namespace vma::interpose
