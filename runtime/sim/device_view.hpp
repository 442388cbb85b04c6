#pragma once

#include "base/clock.hpp"
#include "machine/cost_model.hpp"
#include "sim/sim_clock.hpp"
#include "sim/sim_memory.hpp"
#include "sim/sim_routes.hpp"
#include "sim/work.hpp"

#include <vma/device.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace vma {

/// The time of one run of a kernel: the machine's `kernel_us`, plus the time that memory and links
/// need for the accessed bytes, plus that in which it was suspended. Bytes of its own GPU pass at
/// twice the rate of a local copy, which both reads and writes each byte; transfers from other
/// places alternate with copies on the same route.
///
/// In stepped mode the kernel's time passes while it runs, and other threads run between its
/// accesses: parts of `kernel_us` that depend on the seed pass before some of them, and the rest at
/// the end. In threaded mode nothing waits.
class KernelTime {
 public:
  KernelTime(SimRoutes& routes, SimClock& clock, const CostModel& costs, const WorkPlace& place,
             int device, TimePoint start);

  void before_first_touch();
  /// Requires: the kernel holds nothing that a change of mappings could invalidate.
  void before_touch();
  void touched(Place at, std::uint64_t size_bytes, bool write);
  /// In stepped mode, returns when the kernel has ended.
  TimePoint end();

 private:
  struct FarBytes {
    Place at;
    bool write;
    std::uint64_t size_bytes;
  };

  TimePoint at() const;
  void pay(FarBytes& far);
  void live_through(double part_max);

  SimRoutes& routes_;
  SimClock& clock_;
  const CostModel& costs_;
  const WorkPlace& place_;
  const Place device_;
  const TimePoint start_;
  const TimePoint suspended_before_;
  double ns_ = 0;              // Since the start, without far bytes not yet counted.
  double rest_ns_;             // Of the fixed time.
  std::vector<FarBytes> far_;  // One entry per place and direction.
};

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
