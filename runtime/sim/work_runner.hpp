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

/// Where work runs: a stream, which can wait for a word and is told about accesses.
class WorkPlace {
 public:
  virtual ~WorkPlace() = default;
  /// Blocks until `*word >= value`. Returns false if the work is dropped.
  virtual bool wait_word(const std::uint64_t* word, std::uint64_t value) = 0;
  /// The work has written a word that host threads may read.
  virtual void wrote_word() = 0;
  /// The work accesses the first bytes of the segment at this time.
  virtual void touches(const SimSegment& segment, std::uint64_t size_bytes, Touch touch) = 0;
  /// The work looks memory up and accesses it between the two. `begin_access` blocks while the work
  /// is suspended, and a suspension waits for `end_access`.
  virtual void begin_access() = 0;
  virtual void end_access() noexcept = 0;
  /// How long the work's context has been suspended so far, in all.
  virtual TimePoint suspended_time() const noexcept = 0;
};

/// One access, from the look-up to the last byte.
class WorkAccess {
 public:
  explicit WorkAccess(WorkPlace& place) : place_(place) { place_.begin_access(); }
  ~WorkAccess() { place_.end_access(); }
  WorkAccess(const WorkAccess&) = delete;
  WorkAccess& operator=(const WorkAccess&) = delete;

 private:
  WorkPlace& place_;
};

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
