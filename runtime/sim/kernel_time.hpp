#pragma once

#include "base/clock.hpp"
#include "machine/cost_model.hpp"
#include "sim/sim_clock.hpp"
#include "sim/sim_routes.hpp"

#include <cstdint>
#include <vector>

namespace vma {

/// The time of one run of a kernel: the machine's `kernel_us`, plus the time of memory and links
/// for the accessed bytes. Bytes of its own GPU pass at twice the rate of a copy there, which reads
/// and writes each; transfers from other places alternate with copies on their route.
///
/// Stepped, the kernel's time passes while it runs, and others run between its accesses:
/// seed-dependent parts of `kernel_us` pass before some of them, and the rest at the end. Threaded,
/// there is no waiting.
class KernelTime {
 public:
  KernelTime(SimRoutes& routes, SimClock& clock, const CostModel& costs, int device,
             TimePoint start);

  void before_first_touch();
  /// The kernel holds nothing that a change of mappings could remove.
  void before_touch();
  void touched(Location at, std::uint64_t size_bytes, bool write);
  /// Stepped, returns at the end of the kernel.
  TimePoint end();

 private:
  struct FarBytes {
    Location at;
    bool write;
    std::uint64_t size_bytes;
  };

  TimePoint at() const;
  void pay(FarBytes& far);
  void live_through(double part_max);

  SimRoutes& routes_;
  SimClock& clock_;
  const CostModel& costs_;
  const Location device_;
  const TimePoint start_;
  double ns_ = 0;              // Since the start, without the far bytes that are not yet counted.
  double rest_ns_;             // Of the fixed time.
  std::vector<FarBytes> far_;  // One entry per place and direction.
};

}  // namespace vma
