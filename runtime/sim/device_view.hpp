#pragma once

#include "sim/kernel_time.hpp"
#include "sim/sim_memory.hpp"
#include "sim/work_runner.hpp"

#include <vma/device.hpp>

#include <string_view>

namespace vma {

/// A kernel whose entry is "spin", or ends in "_spin", runs for as many nanoseconds of machine time
/// as its first argument says; its host body does not run. `KernelTime` computes the duration of
/// every other kernel.
constexpr bool is_spin(std::string_view entry) {
  return entry == "spin" || entry.ends_with("_spin");
}

/// A kernel whose entry begins with "vmart_live_" intentionally reads memory that others may be
/// writing: the race detector ignores its reads, but not its writes and atomic operations.
constexpr bool reads_live(std::string_view entry) {
  return entry.starts_with("vmart_live_");
}

/// A simulated kernel's view of memory: what its device can access at that moment, except pageable
/// host memory. In stepped mode, other threads may run before an access, but not between its check
/// and the transfer of its bytes.
class SimDeviceView : public DeviceView {
 public:
  SimDeviceView(SimMemory& memory, int device, WorkPlace& place, KernelTime& time, bool live_reads)
      : memory_(memory), device_(device), place_(place), time_(time), live_reads_(live_reads) {}

  int device() const override { return device_; }
  void read(const void* address, std::span<std::byte> out) override;
  void write(void* address, std::span<const std::byte> bytes) override;
  std::uint64_t atomic_add(std::uint64_t* address, std::uint64_t value) override;

 private:
  SimMemory& memory_;
  const int device_;
  WorkPlace& place_;
  KernelTime& time_;
  const bool live_reads_;
};

}  // namespace vma
