#include "sharing/place_names.hpp"

#include <algorithm>

namespace vma {

PlaceNames::PlaceNames(Driver& driver, const Topology& topology) : topology_(topology) {
  for (const DeviceId device : topology.devices()) {
    const DeviceInfo& info = topology.info(device);
    gpus_[driver.simulated() ? info.pci_bus_id : info.uuid] = gpu(index(device));
  }
}

SharedPlace PlaceNames::name(Location at) const {
  if (at.kind == Location::Kind::host) return {"", static_cast<std::uint32_t>(at.ordinal)};
  const auto named = std::ranges::find(gpus_, at, [](const auto& entry) { return entry.second; });
  return {named == gpus_.end() ? "unknown" : named->first, 0};
}

std::optional<Location> PlaceNames::find(const SharedPlace& place) const {
  if (place.gpu.empty()) {
    const Location node = host(static_cast<int>(std::min<std::uint32_t>(place.node, INT32_MAX)));
    return topology_.has(node) ? std::optional(node) : std::nullopt;
  }
  const auto named = gpus_.find(place.gpu);
  return named == gpus_.end() ? std::nullopt : std::optional(named->second);
}

std::vector<std::string> PlaceNames::gpus() const {
  std::vector<std::string> names;
  for (const DeviceId device : topology_.devices()) {
    names.push_back(name(gpu(index(device))).gpu);
  }
  return names;
}

std::vector<Location> PlaceNames::find_gpus(std::span<const std::string> names) const {
  std::vector<Location> found;
  for (const std::string& name : names) {
    if (const auto known = gpus_.find(name); known != gpus_.end()) found.push_back(known->second);
  }
  return found;
}

}  // namespace vma
