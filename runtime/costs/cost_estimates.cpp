#include "costs/cost_estimates.hpp"

#include "base/units.hpp"
#include "costs/move_costs.hpp"
#include "machine/cost_model.hpp"
#include "placement/books/place_number.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr double giga = 1e9;
// A copy inside a GPU reads and writes each byte; a kernel that reads does half of that work.
constexpr double reads_a_copy = 2;

// Rates of copies between H200s, between an H200 and its host (PCIe 5), and inside one, from
// docs/results/migrations.md and the machine file. PCIe between GPUs is assumed to be slightly
// slower than to the host.
constexpr double local_gb_s = 2100, nvlink_gb_s = 397, pcie_gb_s = 55, pcie_peer_gb_s = 45;
constexpr double host_to_host_gb_s = 13;
// Cost of a switch for each GPU with access to the slot: 82 us with two H200s, 169 us with four.
constexpr microseconds switch_per_reader{41};
// Granting and unmapping host memory takes time per page.
constexpr double host_grant_s_per_byte = 8e-6 / MiB, host_unmap_s_per_byte = 2e-6 / MiB;
// The part of a move that is neither copy nor switch.
constexpr microseconds calls_of_a_move{60};
// Guesses of the right order of magnitude; not measured.
constexpr nanoseconds local_latency{700}, peer_latency{1500}, host_latency{1500};

// Gaps between kernels that were launched ahead, and between rounds that a thread waits for.
// Guesses, too.
constexpr microseconds kernel_gap{2}, round_gap{15};

bool on_host(Place at) {
  return at.kind == Place::Kind::host;
}

DeviceId device_of(Place at) {
  return DeviceId{at.ordinal};
}

template <typename Body>  // body(PlaceId, Place, PlaceId, Place)
void for_each_pair(const Topology& topology, Body&& body) {
  const std::vector<Place>& places = topology.places();
  for (std::size_t from = 0; from < places.size(); ++from) {
    for (std::size_t to = 0; to < places.size(); ++to) {
      body(place_numbered(from), places[from], place_numbered(to), places[to]);
    }
  }
}

bool direct(const Topology& topology, Place from, Place to) {
  if (on_host(from) || on_host(to)) return true;
  return topology.reaches(device_of(from), to);
}

void fill_latencies(MachineCosts& costs, const Topology& topology) {
  for_each_pair(topology, [&](PlaceId device, Place who, PlaceId at, Place where) {
    if (on_host(who)) return;
    costs.access_latency(device, at) = who == where     ? local_latency
                                       : on_host(where) ? host_latency
                                                        : peer_latency;
  });
}

double estimated_gb_s(const Topology& topology, Place from, Place to) {
  if (on_host(from) && on_host(to)) return host_to_host_gb_s;
  if (on_host(from) || on_host(to)) return pcie_gb_s;
  if (from == to) return local_gb_s;
  // Such copies pass through the host.
  if (!topology.reaches(device_of(from), to)) return pcie_peer_gb_s;
  const LinkKind kind = topology.link(device_of(from), device_of(to)).kind;
  return kind == LinkKind::nvlink ? nvlink_gb_s : pcie_peer_gb_s;
}

double described_gb_s(const Topology& topology, const CostModel& model, Place from, Place to) {
  if (direct(topology, from, to)) return model.bandwidth(from, to);
  // Copies pass piecewise through pinned memory of the first node, with both directions overlapped.
  return std::min(model.bandwidth(from, host(0)), model.bandwidth(host(0), to));
}

void require_places(const Topology& topology, const MachineDescription& machine) {
  for (const Place at : topology.places()) {
    const std::size_t count = on_host(at) ? machine.host_nodes.size() : machine.gpus.size();
    if (static_cast<std::size_t>(at.ordinal) < count) continue;
    throw Error(ErrorKind::invalid_argument, "machine costs",
                fmt::format("the machine file {} has no {}", machine.name, to_string(at)));
  }
}

}  // namespace

PlaceId place_of(const Topology& topology, Place at) {
  const std::vector<Place>& places = topology.places();
  const auto found = std::ranges::find(places, at);
  return PlaceId{static_cast<std::uint8_t>(found - places.begin())};
}

double settle_per_byte(const MachineCosts& costs, const Topology& topology, PlaceId from,
                       PlaceId to) {
  const Place source = topology.places().at(index(from));
  const Place target = topology.places().at(index(to));
  const bool live = !on_host(source) && topology.reaches(device_of(source), target);
  // Settling reads at about half the rate of a kernel, as a copy does: 256 MiB in 119 us.
  const double rate = live ? costs.copy_rate(from, from) : costs.copy_rate(from, to);
  return rate > 0 ? 1 / rate : 0;
}

PeerLinks described_peers(const Topology& topology, const MachineDescription& machine) {
  require_places(topology, machine);
  PeerLinks links{topology.link_kinds(), {}};
  for (const DeviceId device : topology.devices()) {
    double gb_s = 0;
    for (const PeerLink& link : machine.peer_links[static_cast<std::size_t>(index(device))])
      gb_s = std::max(gb_s, link.both_ways_gb_s);
    links.both_ways.push_back(gb_s * giga);
  }
  return links;
}

LaunchGaps estimated_gaps(const Topology& topology) {
  const std::size_t gpus = topology.devices().size();
  return {std::vector<Time>(gpus, kernel_gap), std::vector<Time>(gpus, round_gap)};
}

MachineCosts estimated_costs(const Topology& topology) {
  MachineCosts costs(topology.devices().size(), topology.places().size());
  for_each_pair(topology, [&](PlaceId from, Place source, PlaceId to, Place target) {
    costs.copy_rate(from, to) = estimated_gb_s(topology, source, target) * giga;
    if (!on_host(source) && topology.reaches(device_of(source), target)) {
      costs.access_rate(from, to) =
          costs.copy_rate(from, to) * (source == target ? reads_a_copy : 1);
    }
  });
  for_each_pair(topology, [&](PlaceId from, Place source, PlaceId to, Place target) {
    if (source == target) return;
    const std::size_t shown = topology.readers(source).size(),
                      granted = topology.readers(target).size();
    const Time dark = switch_per_reader * std::max(shown, granted);
    const double dark_per_byte =
        (on_host(target) ? host_grant_s_per_byte * static_cast<double>(granted) : 0) +
        (on_host(source) ? host_unmap_s_per_byte * static_cast<double>(shown) : 0);
    costs.move_fixed(from, to) = dark + calls_of_a_move;
    costs.move_per_byte(from, to) = dark_per_byte;
    costs.stall_fixed(from, to) = dark;
    costs.stall_per_byte(from, to) = dark_per_byte + settle_per_byte(costs, topology, from, to);
  });
  fill_latencies(costs, topology);
  costs.rank();
  return costs;
}

MachineCosts described_costs(const Topology& topology, const MachineDescription& machine) {
  require_places(topology, machine);
  const CostModel model(machine);
  MachineCosts costs(topology.devices().size(), topology.places().size());
  for_each_pair(topology, [&](PlaceId from, Place source, PlaceId to, Place target) {
    costs.copy_rate(from, to) = described_gb_s(topology, model, source, target) * giga;
    if (!on_host(source) && topology.reaches(device_of(source), target)) {
      // A read moves bytes from `target` to the GPU, the opposite direction of a copy to `target`.
      costs.access_rate(from, to) =
          model.bandwidth(target, source) * giga * (source == target ? reads_a_copy : 1);
    }
  });
  for_each_pair(topology, [&](PlaceId from, Place source, PlaceId to, Place target) {
    if (source == target) return;
    const int gpus = static_cast<int>(
        std::max(topology.readers(source).size(), topology.readers(target).size()));
    // Typical chunk sizes.
    constexpr std::uint64_t small = 32 * MiB, large = 256 * MiB;
    const LinearCost dark = LinearCost::through(small, model.remap(source, target, small, gpus),
                                                large, model.remap(source, target, large, gpus));
    costs.move_fixed(from, to) =
        dark.fixed + from_microseconds(machine.costs.copy_latency_us + machine.costs.enqueue_us);
    costs.move_per_byte(from, to) = dark.per_byte;
    costs.stall_fixed(from, to) = dark.fixed;
    costs.stall_per_byte(from, to) = dark.per_byte + settle_per_byte(costs, topology, from, to);
  });
  fill_latencies(costs, topology);
  costs.rank();
  return costs;
}

}  // namespace vma
