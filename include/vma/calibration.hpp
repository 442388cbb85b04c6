#pragma once

#include <vma/location.hpp>
#include <vma/peer_links.hpp>
#include <vma/snapshot.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace vma::inline v1 {

struct CalibrateOptions {
  /// Most memory that is taken at each place; 0: 256 MiB, and 32 MiB on a simulated machine. No
  /// more than a quarter of the place.
  std::size_t bytes_per_place = 0;
  /// Routes that have not had their turn by then stay estimates. Opening contexts comes before it,
  /// and counts in no time.
  std::chrono::milliseconds time_limit{2000};
  /// Kept for this machine, for runtimes to come, in VMART_CACHE_DIR, else $XDG_CACHE_HOME/vmart,
  /// else ~/.cache/vmart. Where that fails, the calibration is good all the same.
  bool store = true;
};

/// How long a GPU reads nothing between two kernels of one stream; of each GPU, in order. Empty
/// where nobody knows.
struct LaunchGaps {
  std::vector<std::chrono::nanoseconds> kernel;  ///< Both were launched beforehand.
  std::vector<std::chrono::nanoseconds> round;   ///< One is launched when the other was waited for.
};

/// Streams that come late to a gate stall longer than those that come at once: the driver's calls
/// are slow after a rest. One figure a machine; zero where nobody knows.
struct LateStops {
  std::chrono::nanoseconds wait{0};    ///< From when they were asked until all stood.
  std::chrono::nanoseconds longer{0};  ///< In proportion after less, and no more after more.
};

/// What using and moving memory costs on one machine, as measured.
/// `docs/internals/machine_model.md` says how each figure is come by.
struct Calibration {
  std::string machine;           ///< Its fingerprint: GPUs, driver, links.
  std::string date;              ///< In UTC, "2026-11-21T10:43:00Z".
  std::vector<Location> places;  ///< `costs` knows them by their index here.
  MachineCosts costs{0, 0};      ///< Ranked.
  LaunchGaps gaps;
  LateStops late;
  PeerLinks peers;
  std::vector<std::string> estimates;  ///< What could not be measured, and why; the rest was.
  std::string file;                    ///< Where it is kept; empty if it is not.
};

}  // namespace vma::inline v1
