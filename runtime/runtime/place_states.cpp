#include "runtime/place_states.hpp"

#include "base/units.hpp"
#include "sim/sim_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace vma {
namespace {

constexpr std::uint64_t reserve_share = 128;  // Page tables, and later needs of other libraries.

std::uint64_t less(std::uint64_t bytes, std::uint64_t taken) {
  return bytes - std::min(bytes, taken);
}

std::uint64_t gpu_bytes(Driver& driver, std::uint64_t memory_bytes, DeviceId device,
                        const Ledger::Account& account) {
  const std::uint64_t free_bytes = driver.free_bytes(device);
  if (free_bytes == 0) {  // No context is open: its memory use is a guess.
    return less(memory_bytes, std::min(GiB, memory_bytes / 4) + account.own_bytes);
  }
  const std::uint64_t ours = account.allocated_bytes + account.cached_bytes;
  return less(free_bytes + ours, memory_bytes / reserve_share);
}

std::uint64_t host_bytes(Driver& driver, const Topology& topology, Place at) {
  const std::uint64_t bytes = place_bytes(driver, topology, at);
  if (bytes == 0) return UINT64_MAX;
  return machine_of(driver) != nullptr ? bytes : bytes / 8 * 7;
}

}  // namespace

std::optional<std::uint64_t> host_node_bytes(int node, const std::string& folder) {
  // "Node 0 MemTotal:       528280276 kB" is the first line.
  std::ifstream file(fmt::format("{}/node{}/meminfo", folder, node));
  std::string word, name, unit;
  int number = 0;
  std::uint64_t kib = 0;
  if (!(file >> word >> number >> name >> kib >> unit)) return std::nullopt;
  if (name != "MemTotal:" || unit != "kB" || number != node || kib == 0) return std::nullopt;
  if (kib > UINT64_MAX / KiB) return std::nullopt;
  return kib * KiB;
}

std::uint64_t place_bytes(Driver& driver, const Topology& topology, Place at) {
  if (at.kind == Place::Kind::gpu) return topology.memory_bytes(at);
  if (const MachineDescription* machine = machine_of(driver)) {
    return machine->host_nodes.at(static_cast<std::size_t>(at.ordinal)).memory_bytes;
  }
  return host_node_bytes(at.ordinal).value_or(0);
}

std::vector<PlaceState> place_states(Driver& driver, const Topology& topology,
                                     const Ledger& ledger) {
  std::vector<PlaceState> places;
  for (const Place at : topology.places()) {
    const Ledger::Account account = ledger.account(at);
    const std::uint64_t there =
        at.kind == Place::Kind::gpu
            ? gpu_bytes(driver, topology.memory_bytes(at), DeviceId{at.ordinal}, account)
            : host_bytes(driver, topology, at);
    PlaceState place;
    place.place = at;
    place.capacity_bytes = there;
    if (account.capacity_bytes != UINT64_MAX) {
      place.capacity_bytes =
          std::min(there, less(account.capacity_bytes, account.own_bytes + account.leaked_bytes));
    }
    places.push_back(place);
  }
  return places;
}

void tell_capacities(Driver& driver, const Memory& memory, Scheduler& scheduler) {
  for (const PlaceState& place :
       place_states(driver, memory.topology(), memory.chunks().ledger())) {
    scheduler.set_capacity(place.place, place.capacity_bytes);
  }
}

}  // namespace vma
