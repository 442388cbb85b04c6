#pragma once

#include <vma/place.hpp>
#include <vma/snapshot.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// Index into the links of a machine.
using LinkId = std::uint16_t;

/// The links that bytes cross, and the rate without competing traffic.
class LinkPath {
 public:
  static constexpr std::size_t links_max = 6;

  void add(LinkId link) { links_[count_++] = link; }
  std::span<const LinkId> links() const noexcept { return {links_.data(), count_}; }

  double rate_max = 0;  ///< Bytes per second; 0: no path exists.

 private:
  std::array<LinkId, links_max> links_{};
  std::size_t count_ = 0;
};

/// The links of a machine, each in one direction. Each GPU has its HBM, a port to and a port from
/// other GPUs, and a link to and a link from the host. GPUs that reach each other over PCIe use
/// their host links. Places are the GPUs, followed by the host nodes. The capacity of a link is the
/// rate of its fastest user alone; the machine's costs do not say what concurrent users get, so
/// they share this capacity.
///
/// Hosts that a GPU reaches more slowly than its nearest one are behind one more link in each
/// direction, since several users of the way there are together no faster.
///
/// If both directions of a GPU's peer traffic together are known to be slower than their sum, that
/// traffic also shares one more link of the GPU, common to both directions. Immutable.
class LinkMap {
 public:
  /// Requires: `peers` has a kind for each pair of the GPUs in `costs`, and a combined rate of both
  /// directions for all of them or for none.
  LinkMap(const PeerLinks& peers, const MachineCosts& costs);

  std::size_t size() const noexcept { return capacities_.size(); }
  /// Bytes per second.
  double capacity(LinkId link) const { return capacities_[link]; }
  /// Examples: "gpu(0) hbm", "gpu(2) from peers", "gpu(1) peers both ways".
  const std::string& name(LinkId link) const { return names_[link]; }

  /// The path by which `device` reads memory at `at`.
  const LinkPath& read(PlaceId device, PlaceId at) const { return read_[cell(device, at)]; }
  /// The reverse of `read`, at the same rate; to a host, as much slower as copies there are.
  const LinkPath& write(PlaceId device, PlaceId at) const { return write_[cell(device, at)]; }
  const LinkPath& copy(PlaceId from, PlaceId to) const { return copy_[cell(from, to)]; }

 private:
  enum Port : LinkId { hbm, to_peers, from_peers, to_host, from_host, ports };

  static LinkId link(std::size_t gpu, Port port) { return static_cast<LinkId>(gpu * ports + port); }
  std::size_t cell(PlaceId row, PlaceId column) const {
    return index(row) * places_ + index(column);
  }
  /// The ends of a route; `from_hbm` and `to_hbm` say whether it uses the HBM at that end.
  struct Ends {
    std::size_t from = 0, to = 0;
    bool from_hbm = true, to_hbm = true;
  };
  LinkPath path(const Ends& ends) const;
  bool by_port(const Ends& ends) const;
  void widen(const LinkPath& path);
  void add_far_hosts(std::size_t gpu);
  void add_both_ways(const std::vector<double>& rates);

  std::size_t gpus_, places_;
  std::vector<std::vector<LinkKind>> kinds_;
  std::vector<double> capacities_;
  std::vector<std::string> names_;
  std::vector<LinkPath> read_, write_, copy_;  // [device or source][place]
};

}  // namespace vma
