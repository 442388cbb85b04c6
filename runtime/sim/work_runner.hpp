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

/// Where a work runs: a stream, which can stand before a word, and hears what is touched.
class WorkPlace {
 public:
  virtual ~WorkPlace() = default;
  /// Blocks until `*word >= value`. False: the work is given up.
  virtual bool wait_word(const std::uint64_t* word, std::uint64_t value) = 0;
  /// The work has written a word that host threads may look at.
  virtual void wrote_word() = 0;
  /// The work touches the first bytes of the segment: about now.
  virtual void touches(const Segment& segment, std::uint64_t size_bytes, Touch touch) = 0;
};

/// Does the work of streams: moves the bytes and says how long it takes. Called by the threads of
/// the streams without any lock.
///
/// Stepped, a work ends when the clock says so, copies move in a few pieces and kernels touch
/// memory with other threads in between. Threaded, bytes move as fast as they can and only the ends
/// that are returned are those of the machine.
class WorkRunner {
 public:
  WorkRunner(SimMemory& memory, SimRoutes& routes, SimClock& clock, const CostModel& costs)
      : memory_(memory), routes_(routes), clock_(clock), costs_(costs) {}

  /// Returns when the work ends, which began at `start` or later. Throws: DeviceFault.
  TimePoint run(const Work& work, DeviceId device, TimePoint start, WorkPlace& place);

 private:
  TimePoint copy(const CopyWork& work, int device, TimePoint start, WorkPlace& place);
  TimePoint fill(const FillWork& work, int device, TimePoint start, WorkPlace& place);
  TimePoint spin(TimePoint end);
  TimePoint kernel(const KernelWork& work, int device, TimePoint start, WorkPlace& place);
  TimePoint batch(const BatchWork& work, int device, TimePoint start, WorkPlace& place);
  void pass_until(TimePoint time);

  SimMemory& memory_;
  SimRoutes& routes_;
  SimClock& clock_;
  const CostModel& costs_;
};

}  // namespace vma
