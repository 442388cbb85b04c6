#include "lab/traffic/link_map.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

/// The rate of writes over that of reads, which is all that costs have. Only the link to a host has
/// a direction that is known to be slower: copies show by how much.
double write_share(const MachineCosts& costs, PlaceId device, PlaceId at) {
  const double there = costs.copy_rate(device, at), back = costs.copy_rate(at, device);
  const bool is_known = index(at) >= costs.gpus() && there > 0 && back > 0;
  return is_known ? std::min(there / back, 1.0) : 1;
}

}  // namespace

LinkMap::LinkMap(const PeerLinks& peers, const MachineCosts& costs)
    : gpus_(costs.gpus()), places_(costs.places()), kinds_(peers.kinds) {
  VMART_CHECK(kinds_.size() == gpus_, "the links are those of the GPUs that the costs are of");
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
        each = path(ends);
        each.rate_max = rate;
        widen(each);
      };
      if (row != column) set(copy_, {row, column}, costs.copy_rate(one, other));
      if (row >= gpus_) continue;
      const double rate = costs.access_rate(one, other);
      set(read_, {column, row, true, row == column}, rate);
      set(write_, {row, column, row == column, true}, rate * write_share(costs, one, other));
    }
  }
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) add_far_hosts(gpu);
  add_both_ways(peers.both_ways);
}

bool LinkMap::by_port(const Ends& ends) const {
  return ends.from < gpus_ && ends.to < gpus_ && kinds_[ends.from][ends.to] == LinkKind::nvlink;
}

LinkPath LinkMap::path(const Ends& ends) const {
  const auto [from, to, from_hbm, to_hbm] = ends;
  LinkPath path;
  const bool from_gpu = from < gpus_, to_gpu = to < gpus_;
  if (from_gpu && from_hbm) path.add(link(from, hbm));
  if (from == to) return path;
  const bool peers = by_port(ends);
  if (from_gpu) path.add(link(from, peers ? to_peers : to_host));
  if (to_gpu) path.add(link(to, peers ? from_peers : from_host));
  if (to_gpu && to_hbm) path.add(link(to, hbm));
  return path;
}

void LinkMap::widen(const LinkPath& path) {
  for (const LinkId link : path.links())
    capacities_[link] = std::max(capacities_[link], path.rate_max);
}

/// What is slower to reach than the GPU's nearest host is so by a link behind its own one, which
/// all that it has to do with these hosts shares.
void LinkMap::add_far_hosts(std::size_t gpu) {
  constexpr double as_near = 0.98;  // Measurements vary by as much.
  const PlaceId self{static_cast<std::uint8_t>(gpu)};
  std::array<std::vector<LinkPath*>, 2> far;
  std::array<double, 2> rates{};
  for (std::size_t row = gpus_; row < places_; ++row) {
    const PlaceId host{static_cast<std::uint8_t>(row)};
    const double rate = read(self, host).rate_max;
    if (rate <= 0 || rate >= as_near * capacity(link(gpu, from_host))) continue;
    for (LinkPath* path : {&copy_[cell(self, host)], &write_[cell(self, host)]}) {
      far[0].push_back(path);
      rates[0] = std::max(rates[0], path->rate_max);
    }
    for (LinkPath* path : {&copy_[cell(host, self)], &read_[cell(self, host)]}) {
      far[1].push_back(path);
      rates[1] = std::max(rates[1], path->rate_max);
    }
  }
  for (const std::size_t way : {0, 1}) {
    if (far[way].empty()) continue;
    const auto added = static_cast<LinkId>(size());
    capacities_.push_back(rates[way]);
    names_.push_back(fmt::format("gpu({}) {} far hosts", gpu, way == 0 ? "to" : "from"));
    for (LinkPath* const path : far[way]) path->add(added);
  }
}

/// Runs last, so that the other links keep their ids whether or not these rates are known.
void LinkMap::add_both_ways(const std::vector<double>& rates) {
  constexpr double no_less = 0.98;  // Relative to the sum of both; measurements vary by as much.
  for (std::size_t gpu = 0; gpu < rates.size(); ++gpu) {
    const double in = capacity(link(gpu, from_peers)), out = capacity(link(gpu, to_peers));
    if (rates[gpu] <= 0 || rates[gpu] >= no_less * (in + out)) continue;
    const auto both = static_cast<LinkId>(size());
    capacities_.push_back(std::max({rates[gpu], in, out}));
    names_.push_back(fmt::format("gpu({}) peers both ways", gpu));
    for (std::size_t peer = 0; peer < gpus_; ++peer) {
      const PlaceId one{static_cast<std::uint8_t>(gpu)}, other{static_cast<std::uint8_t>(peer)};
      if (by_port({peer, gpu})) {
        read_[cell(one, other)].add(both);
        write_[cell(other, one)].add(both);
        copy_[cell(other, one)].add(both);
      }
      if (by_port({gpu, peer})) {
        read_[cell(other, one)].add(both);
        write_[cell(one, other)].add(both);
        copy_[cell(one, other)].add(both);
      }
    }
  }
}

}  // namespace vma
