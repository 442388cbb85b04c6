#pragma once

#include "sim/sim_memory.hpp"
#include "sim/work_runner.hpp"

#include <vma/device.hpp>

#include <string_view>

namespace vma {

/// A kernel whose entry is "spin", or ends in "_spin", takes as many nanoseconds of the machine's
/// time as its first argument says; a host body of it is not run. Every other kernel takes the
/// machine's `kernel_us`.
constexpr bool is_spin(std::string_view entry) {
  return entry == "spin" || entry.ends_with("_spin");
}

/// What a simulated kernel sees of memory: only what its device has access to at the moment of the
/// touch. Memory of the host that is not pinned is not reached.
class SimDeviceView : public DeviceView {
 public:
  SimDeviceView(SimMemory& memory, int device, WorkPlace& place)
      : memory_(memory), device_(device), place_(place) {}

  int device() const override { return device_; }
  void read(const void* address, std::span<std::byte> out) override;
  void write(void* address, std::span<const std::byte> bytes) override;
  std::uint64_t atomic_add(std::uint64_t* address, std::uint64_t value) override;

 private:
  SimMemory& memory_;
  const int device_;
  WorkPlace& place_;
};

}  // namespace vma
