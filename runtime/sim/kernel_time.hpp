#pragma once

#include "base/clock.hpp"
#include "machine/cost_model.hpp"
#include "sim/sim_clock.hpp"
#include "sim/sim_routes.hpp"

#include <cstdint>
#include <vector>

namespace vma {

class WorkPlace;

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
  void touched(Location at, std::uint64_t size_bytes, bool write);
  /// In stepped mode, returns when the kernel has ended.
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
  const WorkPlace& place_;
  const Location device_;
  const TimePoint start_;
  const TimePoint suspended_before_;
  double ns_ = 0;              // Since the start, without far bytes not yet counted.
  double rest_ns_;             // Of the fixed time.
  std::vector<FarBytes> far_;  // One entry per place and direction.
};

}  // namespace vma
