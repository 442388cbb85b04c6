#include "lab/link_map.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {

LinkMap::LinkMap(const MachineDescription& machine, const MachineCosts& costs)
    : gpus_(costs.gpus()), places_(costs.places()) {
  VMART_CHECK(machine.gpus.size() == gpus_ && gpus_ + machine.host_nodes.size() == places_,
              "the costs are those of the described machine");
  capacities_.assign(gpus_ * ports, 0);
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) {
    for (const char* port : {"hbm", "to peers", "from peers", "to host", "from host"})
      names_.push_back(fmt::format("gpu({}) {}", gpu, port));
  }
  access_.resize(gpus_ * places_);
  copy_.resize(places_ * places_);
  for (std::size_t row = 0; row < places_; ++row) {
    for (std::size_t column = 0; column < places_; ++column) {
      const PlaceId one{static_cast<std::uint8_t>(row)}, other{static_cast<std::uint8_t>(column)};
      if (row != column) {
        LinkPath& copy = copy_[cell(one, other)];
        copy = path(machine, row, column, true);
        copy.rate_max = costs.copy_rate(one, other);
        widen(copy);
      }
      if (row >= gpus_) continue;
      LinkPath& access = access_[cell(one, other)];
      access = path(machine, column, row, false);
      access.rate_max = costs.access_rate(one, other);
      widen(access);
    }
  }
}

/// From what lies at `from` to `to`; a copy goes into the HBM there, what a kernel reads does not.
LinkPath LinkMap::path(const MachineDescription& machine, std::size_t from, std::size_t to,
                       bool writes) const {
  LinkPath path;
  const bool from_gpu = from < gpus_, to_gpu = to < gpus_;
  if (from_gpu) path.add(link(from, hbm));
  if (from == to) return path;
  const bool peers = from_gpu && to_gpu && machine.peer_links[from][to].kind == LinkKind::nvlink;
  if (from_gpu) path.add(link(from, peers ? to_peers : to_host));
  if (to_gpu) path.add(link(to, peers ? from_peers : from_host));
  if (to_gpu && writes) path.add(link(to, hbm));
  return path;
}

void LinkMap::widen(const LinkPath& path) {
  for (const LinkId link : path.links())
    capacities_[link] = std::max(capacities_[link], path.rate_max);
}

}  // namespace vma
