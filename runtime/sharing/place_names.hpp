#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "sharing/share_protocol.hpp"

#include <map>
#include <optional>
#include <string>

namespace vma {

/// The places of this process by names that another process on the machine understands: GPUs by
/// their UUID, because each process may number them otherwise (CUDA_VISIBLE_DEVICES). GPUs of
/// simulated machines go by their bus id, as each process has a machine of its own. Immutable.
class PlaceNames {
 public:
  PlaceNames(Driver& driver, const Topology& topology);

  SharedPlace name(Location at) const;
  /// None if this process does not use the place.
  std::optional<Location> find(const SharedPlace& place) const;

 private:
  const Topology& topology_;
  std::map<std::string, Location> gpus_;
};

}  // namespace vma
