#include "measuring/machine_facts.hpp"

#include "base/units.hpp"
#include "machine/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <string>

namespace vma {
namespace {

/// Such as "nvidia-h200x2".
std::string name_of(const MachineDescription& machine) {
  std::string name;
  for (const unsigned char letter : machine.gpus.front().name) {
    if (std::isalnum(letter) != 0) {
      name += static_cast<char>(std::tolower(letter));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  return fmt::format("{}x{}", name, machine.gpus.size());
}

GpuDescription gpu_of(const DeviceInfo& info, std::size_t nodes) {
  GpuDescription gpu;
  gpu.name = info.name;
  gpu.memory_bytes = round_down(info.memory_bytes, MiB);
  gpu.multiprocessors = info.multiprocessors;
  gpu.compute_capability = info.compute_capability;
  gpu.copy_engines = std::max(1, info.copy_engines);
  gpu.hardware_queues = info.max_queues;
  // The driver may not allocate memory on the GPU's own node; node 0 replaces it.
  gpu.host_node = static_cast<std::size_t>(info.host_node) < nodes ? info.host_node : 0;
  return gpu;
}

}  // namespace

MachineDescription machine_facts(Driver& driver) {
  const Topology topology = Topology::discover(driver, {});
  MachineDescription machine;
  machine.granularity_bytes = topology.granularity();
  machine.host_nodes.resize(static_cast<std::size_t>(std::max(1, driver.host_node_count())));
  for (const DeviceId device : topology.devices()) {
    machine.gpus.push_back(gpu_of(topology.info(device), machine.host_nodes.size()));
  }
  machine.name = name_of(machine);
  for (const DeviceId from : topology.devices()) {
    std::vector<PeerLink>& row = machine.peer_links.emplace_back();
    for (const DeviceId to : topology.devices()) {
      const LinkInfo& link = topology.link(from, to);
      row.push_back({link.kind, 0, link.native_atomics});
    }
    machine.host_links.emplace_back(machine.host_nodes.size(),
                                    HostLink{0, 0, topology.info(from).host_atomics});
  }
  return machine;
}

std::uint64_t system_node_bytes(int node) {
  std::ifstream file(fmt::format("/sys/devices/system/node/node{}/meminfo", node));
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);  // Such as "Node 0 MemTotal:  1056768000 kB".
    std::string word, key;
    std::uint64_t number = 0, kib = 0;
    if (words >> word >> number >> key >> kib && key == "MemTotal:") return kib * KiB;
  }
  return 0;
}

}  // namespace vma
