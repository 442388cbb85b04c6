#pragma once

#include "memory/allocation.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/calibration.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// One calibration. It measures on the caller's thread with the runtime's own calls, so it waits
/// for locks and turns like any user. Each number is the difference between two sizes, or two
/// counts of passes, so that no rate contains the fixed cost of a call. One object per run.
///
/// Starts from the machine's costs without a calibration. If a measurement fails or runs out of
/// time, those costs remain and the estimate is listed.
/// One owner: each measurement uses the sizes, the time left and the costs found so far.
class Calibrator {
 public:
  /// Requires: all arguments outlive it, and the runtime is open.
  Calibrator(Runtime& runtime, Driver& driver, Machinery& machinery,
             const CalibrateOptions& options);
  ~Calibrator();
  Calibrator(const Calibrator&) = delete;
  Calibrator& operator=(const Calibrator&) = delete;

  /// Throws: Error{driver_gone}; {unsupported} if nothing could be measured.
  Calibration run();

 private:
  struct Scratch {  // Of one place.
    std::byte* small = nullptr;
    std::byte* large = nullptr;
  };
  struct MoveTimes {
    Time move = Time::max();
    Time dark = Time::max();  // Between a slot's unmap and its last grant.
  };

  /// Returns whether `body` succeeded; otherwise records `what` with the reason.
  bool attempt(const std::string& what, const std::function<void()>& body);
  void open_contexts();
  void allocate(Place at);
  void free_all() noexcept;
  std::byte* scratch(Place at, bool large) const;
  const Chunk& chunk_of(std::byte* pointer) const;

  void measure_copies();
  double copy_rate(Place from, Place to);
  Time copy_time(Place from, Place to, bool large);
  void measure_accesses();
  void measure_accesses(DeviceId device, Place at, bool chained);
  double access_rate(Place device, Place at);
  Time access_latency(Place device, Place at);
  void write_chain(std::byte* data);
  void launch_read(Place device, Place at, std::uint64_t count);
  Time read_time(Place device, Place at, std::uint64_t count);
  struct RingTimes {
    Time launched{0}, ended{0};  // Since the first launch, over all GPUs.
  };
  void measure_peers();
  double both_ways_rate();
  RingTimes ring_times(std::uint64_t count);
  void measure_launches();
  void measure_launches(Place device);
  Time reads_time(Place device, bool waits);
  void measure_moves();
  /// Measures moves from `near`, where the scratch memory is, to `far` and back.
  void measure_moves(Place near, Place far);
  void take_moves(Place from, Place to, const MoveTimes& small, const MoveTimes& large);
  void move(std::byte* pointer, Place to, MoveTimes* times);

  Runtime& runtime_;
  Driver& driver_;
  Machinery& machinery_;
  const Topology& topology_;
  Clock& clock_;
  // Sizes of the chunks that move, and of the memory that is read. Constant after construction.
  std::uint64_t small_bytes_ = 0, large_bytes_ = 0, read_bytes_ = 0;
  TimePoint time_limit_{0}, deadline_ = never;
  MachineCosts costs_;
  LaunchGaps gaps_;
  PeerLinks peers_;
  std::vector<std::string> estimates_;
  int successes_ = 0;
  std::map<Place, Scratch> scratch_;
  std::map<Place, Stream> streams_;
};

}  // namespace vma
