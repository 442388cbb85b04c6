#include "lab/replay/replay_machine.hpp"

#include "base/units.hpp"
#include "costs/cost_estimates.hpp"
#include "machine/topology.hpp"
#include "sim/sim_driver.hpp"

#include <algorithm>
#include <chrono>

namespace vma {
namespace {

/// What PyTorch opens on one GPU (docs/results/suspension.md): 20 channels.
constexpr double channels = 20;

/// GPUs are stopped one after the other.
std::optional<Time> suspension_of(const MachineDescription& machine) {
  const CostParameters& costs = machine.costs;
  if (costs.suspend_us <= 0) return std::nullopt;
  const double us = costs.suspend_us + costs.resume_us +
                    channels * (costs.suspend_channel_us + costs.resume_channel_us);
  const double all_us = us * static_cast<double>(machine.gpus.size());
  return std::chrono::duration_cast<Time>(std::chrono::duration<double, std::micro>(all_us));
}

}  // namespace

ReplayMachine replay_machine(const MachineDescription& machine) {
  SimDriver driver(machine);  // Only queried for which GPUs reach each other.
  const Topology topology = Topology::discover(driver, {});
  const MachineCosts costs = described_costs(topology, machine);
  PeerLinks peers = described_peers(topology, machine);
  LinkMap links(peers, costs);
  std::vector<PlaceState> places;
  for (const Place& at : topology.places()) {
    const auto ordinal = static_cast<std::size_t>(at.ordinal);
    std::uint64_t bytes = 0;
    if (at.kind == Place::Kind::gpu) {
      const std::uint64_t memory = machine.gpus[ordinal].memory_bytes;
      bytes = memory - std::min(GiB, memory / 4);
    } else {
      const std::uint64_t memory = machine.host_nodes[ordinal].memory_bytes;
      bytes = memory - memory / 8;
    }
    places.push_back({at, bytes, 0, 0});
  }
  return {machine.name,     std::move(places),     costs, std::move(links), {}, {},
          std::move(peers), suspension_of(machine)};
}

}  // namespace vma
