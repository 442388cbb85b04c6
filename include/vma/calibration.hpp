#pragma once

#include <vma/place.hpp>
#include <vma/snapshot.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace vma::inline v1 {

struct CalibrateOptions {
  /// Maximum memory to use at each place, never more than a quarter of it, and on a simulated
  /// machine never more than 32 MiB. 0: 1 GiB.
  std::size_t bytes_per_place = 0;
  /// Routes that are not measured by then remain estimates. Opening contexts comes first and does
  /// not count.
  std::chrono::milliseconds time_limit{2000};
  /// Stores the result for later runtimes on this machine, in VMART_CACHE_DIR, else
  /// $XDG_CACHE_HOME/vmart, else ~/.cache/vmart. The calibration is valid even if it cannot be
  /// stored.
  bool store = true;
};

/// How long a GPU reads nothing between two kernels of one stream; one value per GPU, in order.
/// Empty if unknown.
struct LaunchGaps {
  std::vector<std::chrono::nanoseconds> kernel;  ///< Both were launched in advance.
  /// The second is launched after waiting for the first.
  std::vector<std::chrono::nanoseconds> round;
};

/// Streams that arrive late at a gate stall longer than those that arrive at once, because driver
/// calls are slow after a pause. One value per machine; zero if unknown.
struct LateStops {
  std::chrono::nanoseconds wait{0};  ///< From the request to stop until all have stopped.
  /// The extra stall after that wait. Proportionally less after shorter waits; never more.
  std::chrono::nanoseconds longer{0};
};

/// Measured costs of using and moving memory on one machine. `runtime/costs/README.md`
/// explains how each figure is measured.
struct Calibration {
  std::string machine;        ///< Its fingerprint: GPUs, driver, links.
  std::string date;           ///< In UTC, "2026-11-21T10:43:00Z".
  std::vector<Place> places;  ///< Indices of `costs` refer to this list.
  MachineCosts costs{0, 0};   ///< Ranked.
  LaunchGaps gaps;
  LateStops late;
  PeerLinks peers;
  std::vector<std::string> estimates;  ///< What could not be measured, and why.
  std::string file;                    ///< Where it is stored; empty if it is not.
};

}  // namespace vma::inline v1
