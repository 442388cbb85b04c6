#pragma once

#include "lab/traffic/link_map.hpp"
#include "lab/traffic/link_traffic.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <vector>

namespace vma {

/// What `LinkTraffic` computes, by the definition: every change raises one common rate of all flows
/// from zero, and a step in time visits all of them. Flows are numbered from zero in the order of
/// their beginning and keep their number.
class PlainTraffic {
 public:
  explicit PlainTraffic(const LinkMap& map) : map_(map), carried_(map.size()) {}

  std::size_t begin(const LinkTraffic::NewFlow& flow, Time now);
  /// Returns its remaining bytes.
  double end(std::size_t flow, Time now);
  void pause(Time now);
  void resume(Time now);

  /// Seconds from `now` until the next flow ends; infinite if none does.
  double seconds_to_end(Time now);
  double rate(std::size_t flow) const { return flows_[flow].rate; }
  double left(std::size_t flow) const { return flows_[flow].left; }
  double carried(LinkId link) const { return carried_[link]; }

 private:
  struct Flow {
    LinkTraffic::NewFlow what;
    double most = 0, left = 0, rate = 0;
    bool active = true, fixed = false;
  };

  bool runs(const Flow& flow) const { return flow.active && !(paused_ && flow.what.pauses); }
  void advance(Time now);
  void find_rates();
  std::vector<double> link_levels() const;

  const LinkMap& map_;
  std::vector<Flow> flows_;
  std::vector<double> carried_;
  bool paused_ = false;
  Time now_{0};
};

}  // namespace vma
