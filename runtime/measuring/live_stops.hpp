#pragma once

#include "base/executor.hpp"

#include <vma/calibration.hpp>
#include <vma/runtime.hpp>
#include <vma/snapshot.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace vma {

/// The mean of all values up to three times the median: the typical cost without outliers that have
/// an unrelated cause, too rare for a handful of samples to average out. Requires: not empty.
Time usual_mean(std::vector<Time> times);

class BusyGpu;

/// Measures how long live moves take and how long they stop streams. On each route, two chunks
/// repeatedly swap places while a thread per GPU reads the GPU's own memory on an attached stream,
/// in rounds of launches that it waits for, as a program does. (`Calibrator` stops no streams, so
/// it does not see the cost of gates.) Then measures the same between one GPU and the host during
/// long rounds, whose end a gate waits for: `LateStops`. One object per run.
class LiveStops {
 public:
  /// Two sizes of the chunks that move, one size for late stops, and the bytes that each GPU reads
  /// meanwhile.
  struct Sizes {
    std::size_t small_bytes = 0, large_bytes = 0, late_bytes = 0, read_bytes = 0;
  };

  /// Requires: the runtime outlives it and has no attached streams, which would be stopped too.
  LiveStops(Runtime& runtime, const Sizes& sizes);
  /// Releases its resources; logs failures.
  ~LiveStops();
  LiveStops(const LiveStops&) = delete;
  LiveStops& operator=(const LiveStops&) = delete;

  /// Replaces moves, stalls and late stops in `calibration`, and names the routes that failed.
  /// Requires: it belongs to this runtime's machine. Throws: Error{driver_gone}. Blocks: some
  /// milliseconds per move and route; two seconds for late stops.
  void measure(Calibration& calibration);

 private:
  struct Times {
    std::vector<Time> moves, stalls, waits;
  };
  struct Route {
    Times there, back;
  };

  void open_gpus();
  void swap(const std::array<std::byte*, 2>& chunks, Place near, Place far, Route* route);
  Route measure(Place near, Place far, std::size_t bytes);
  void measure_routes(Calibration& calibration);
  void take(Calibration& calibration, PlaceId from, PlaceId to, const Times& small,
            const Times& large) const;
  Route measure_rounds(Place near, Place far, Time round);
  LateStops measure_late(Place near, Place far);
  void free(std::byte* pointer) noexcept;

  Runtime& runtime_;
  const Sizes sizes_;
  ThreadedExecutor executor_;
  std::vector<std::unique_ptr<BusyGpu>> gpus_;
};

}  // namespace vma
