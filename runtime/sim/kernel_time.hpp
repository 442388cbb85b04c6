#pragma once

#include "base/clock.hpp"
#include "machine/cost_model.hpp"
#include "sim/sim_clock.hpp"
#include "sim/sim_routes.hpp"

#include <cstdint>
#include <vector>

namespace vma {

/// The time of one run of a kernel: the machine's `kernel_us`, and for the bytes that it touches
/// what memory and links take. Bytes of its own GPU pass at twice the rate of a copy there, which
/// reads and writes each; bytes of other places take turns on their route with copies.
///
/// Stepped, the kernel lives through its time, and others run between its touches: parts of
/// `kernel_us` that the seed chooses pass before some of them, and what is left at the end.
/// Threaded, nobody waits.
class KernelTime {
 public:
  KernelTime(SimRoutes& routes, SimClock& clock, const CostModel& costs, int device,
             TimePoint start);

  void before_first_touch();
  /// The kernel holds nothing that a change of mappings could take away.
  void before_touch();
  void touched(Location at, std::uint64_t size_bytes, bool write);
  /// Stepped, returns then.
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
  double ns_ = 0;              // Since the start, but for the far bytes that are not paid for.
  double rest_ns_;             // Of the fixed time.
  std::vector<FarBytes> far_;  // One entry a place and direction.
};

}  // namespace vma
