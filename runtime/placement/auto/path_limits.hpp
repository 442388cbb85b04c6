#pragma once

#include <vma/policy.hpp>

#include <cstdint>
#include <vector>

namespace vma::inline v1 {

/// Whether a path holds a GPU up: a saving counts only where the path is, or would be, the limit. A
/// GPU that computes for longer than its memory takes loses nothing to a path that carries all
/// bytes that it asks for there; one that reads as fast as it can asks for as much as the path
/// gives.
///
/// A GPU has three paths: to its own HBM, to its peers together, and to the hosts together; without
/// fast links, to peers and hosts together. A peer is loaded by all that read there. Loads are
/// counted in windows of 20 ms and averaged by the time that uses take: a GPU that waits between
/// bursts has the load of its bursts.
class PathLimits {
 public:
  /// `limit`: the load of a path, from 0 to 1, from which on all of a saving counts; below half of
  /// it nothing counts, and between them a part. 0: everything always counts.
  explicit PathLimits(double limit) : limit_(limit) {}

  /// Takes in a use of a chunk that lies at `at`.
  void note(const UseEvent& use, PlaceId at, const Snapshot& snapshot);
  /// What part of the seconds that `device` takes for its uses at `at` it is held up, from 0 to 1;
  /// `more` bytes per second would come on top of those that lie there. 1 as long as nothing is
  /// known about the device.
  double share(PlaceId device, PlaceId at, double more = 0) const;
  /// Seconds of use per second.
  double load(PlaceId device, PlaceId at, double more = 0) const;

 private:
  /// Seconds per second, averaged by these seconds.
  struct Average {
    double now = 0;  // In the window.
    double seconds = 0, seconds_times_load = 0;
    double load = 0;  // Their quotient.
  };
  enum Path : std::size_t { own, peers, hosts, paths };

  Path path(PlaceId device, PlaceId at) const;
  void end_windows(Time now);

  double limit_;
  const MachineCosts* costs_ = nullptr;  // The snapshot's, as of the last use.
  std::int64_t window_ = 0;
  std::vector<Average> taken_;   // By GPU and path.
  std::vector<Average> served_;  // By GPU: what others read there.
  std::vector<bool> known_;      // By GPU: a window with uses of it has ended.
};

}  // namespace vma::inline v1
