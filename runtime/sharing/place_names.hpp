#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"
#include "sharing/share_protocol.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
  /// Of all GPUs of this process, in its order.
  std::vector<std::string> gpus() const;
  /// The GPUs of this process among those that another one uses.
  std::vector<Location> find_gpus(std::span<const std::string> names) const;

 private:
  const Topology& topology_;
  std::map<std::string, Location> gpus_;
};

}  // namespace vma
