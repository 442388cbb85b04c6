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
  read_.resize(gpus_ * places_);
  write_.resize(gpus_ * places_);
  copy_.resize(places_ * places_);
  for (std::size_t row = 0; row < places_; ++row) {
    for (std::size_t column = 0; column < places_; ++column) {
      const PlaceId one{static_cast<std::uint8_t>(row)}, other{static_cast<std::uint8_t>(column)};
      const auto set = [&](std::vector<LinkPath>& paths, const Ends& ends, double rate) {
        LinkPath& each = paths[cell(one, other)];
        each = path(machine, ends);
        each.rate_max = rate;
        widen(each);
      };
      if (row != column) set(copy_, {row, column}, costs.copy_rate(one, other));
      if (row >= gpus_) continue;
      const double rate = costs.access_rate(one, other);
      set(read_, {column, row, true, row == column}, rate);
      set(write_, {row, column, row == column, true}, rate);
    }
  }
}

LinkPath LinkMap::path(const MachineDescription& machine, const Ends& ends) const {
  const auto [from, to, from_hbm, to_hbm] = ends;
  LinkPath path;
  const bool from_gpu = from < gpus_, to_gpu = to < gpus_;
  if (from_gpu && from_hbm) path.add(link(from, hbm));
  if (from == to) return path;
  const bool peers = from_gpu && to_gpu && machine.peer_links[from][to].kind == LinkKind::nvlink;
  if (from_gpu) path.add(link(from, peers ? to_peers : to_host));
  if (to_gpu) path.add(link(to, peers ? from_peers : from_host));
  if (to_gpu && to_hbm) path.add(link(to, hbm));
  return path;
}

void LinkMap::widen(const LinkPath& path) {
  for (const LinkId link : path.links())
    capacities_[link] = std::max(capacities_[link], path.rate_max);
}

}  // namespace vma
