#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "machine/cost_model.hpp"
#include "sim/race_detector.hpp"
#include "sim/sim_clock.hpp"
#include "sim/sim_memory.hpp"
#include "sim/sim_routes.hpp"
#include "sim/work.hpp"

#include <cstdint>

namespace vma {

/// Performs the work of streams: moves the bytes and computes the duration. The streams' threads
/// call it without any lock.
///
/// In stepped mode, work ends at its time by the clock; copies move in a few pieces, and other
/// threads run between them and between a kernel's accesses. In threaded mode, bytes move as fast
/// as possible and only the returned end times are those of the machine.
class WorkRunner {
 public:
  WorkRunner(SimMemory& memory, SimRoutes& routes, SimClock& clock, const CostModel& costs)
      : memory_(memory), routes_(routes), clock_(clock), costs_(costs) {}

  /// Returns when the work ends, if it began at `start` or later. Throws: DeviceFault.
  TimePoint run(const Work& work, DeviceId device, TimePoint start, WorkPlace& place);

 private:
  TimePoint copy(const CopyWork& work, int device, TimePoint start, WorkPlace& place);
  TimePoint fill(const FillWork& work, int device, TimePoint start, WorkPlace& place);
  TimePoint spin(TimePoint end, WorkPlace& place);
  TimePoint kernel(const KernelWork& work, int device, TimePoint start, WorkPlace& place);
  TimePoint batch(const BatchWork& work, int device, TimePoint start, WorkPlace& place);
  TimePoint pass_until(TimePoint time, WorkPlace& place);

  SimMemory& memory_;
  SimRoutes& routes_;
  SimClock& clock_;
  const CostModel& costs_;
};

}  // namespace vma
