#include "machine/machine_reader.hpp"

#include "base/units.hpp"
#include "machine/cost_members.hpp"
#include "machine/link_kind.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value_to.hpp>

#include <string_view>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

double number(const json::object& object, std::string_view key, double otherwise = 0) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? otherwise : value->to_number<double>();
}

int integer(const json::object& object, std::string_view key, int otherwise = 0) {
  return static_cast<int>(number(object, key, otherwise));
}

std::uint64_t mib(const json::object& object, std::string_view key) {
  return static_cast<std::uint64_t>(number(object, key)) * MiB;
}

bool flag(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->get_bool();
}

std::string text(const json::object& object, std::string_view key) {
  return std::string(object.at(key).get_string());
}

void read_host_nodes(const json::object& file, MachineDescription& machine) {
  for (const json::value& value : file.at("host_nodes").get_array()) {
    const json::object& entry = value.get_object();
    const auto count = static_cast<std::size_t>(integer(entry, "count", 1));
    machine.host_nodes.insert(machine.host_nodes.end(), count, {mib(entry, "memory_mib")});
  }
}

void read_gpus(const json::object& file, MachineDescription& machine) {
  for (const json::value& value : file.at("gpus").get_array()) {
    const json::object& entry = value.get_object();
    GpuDescription gpu;
    gpu.name = text(entry, "name");
    gpu.memory_bytes = mib(entry, "memory_mib");
    gpu.multiprocessors = integer(entry, "multiprocessors");
    gpu.compute_capability = integer(entry, "compute_capability");
    gpu.copy_engines = integer(entry, "copy_engines");
    gpu.hardware_queues = integer(entry, "hardware_queues");
    gpu.local_gb_s = number(entry, "local_gb_s");
    const int first = integer(entry, "host_node"), a_node = integer(entry, "gpus_per_host_node");
    for (int n = 0; n < integer(entry, "count", 1); ++n) {
      gpu.host_node = first + (a_node > 0 ? n / a_node : 0);
      machine.gpus.push_back(gpu);
    }
  }
}

/// Which GPUs reach each other. Without a matrix, all pairs do.
void read_reach(const json::object& file, MachineDescription& machine) {
  const json::value* rows = file.if_contains("reachable");
  if (rows == nullptr) return;
  for (std::size_t from = 0; from < machine.gpus.size(); ++from) {
    const json::array& row = rows->get_array()[from].get_array();
    for (std::size_t to = 0; to < machine.gpus.size(); ++to) {
      if (from != to && !row[to].get_bool()) machine.peer_links[from][to] = PeerLink{};
    }
  }
}

void read_peers(const json::object& file, MachineDescription& machine) {
  const std::size_t gpus = machine.gpus.size();
  PeerLink link;
  if (const json::value* value = file.if_contains("peer_link")) {
    const json::object& entry = value->get_object();
    link.kind = parse_link_kind(entry.at("kind").get_string()).value_or(LinkKind::none);
    if (link.kind != LinkKind::none) {
      link.gb_s = number(entry, "gb_s");
      link.native_atomics = flag(entry, "native_atomics");
      link.both_ways_gb_s = number(entry, "both_ways_gb_s");
    }
  }
  machine.peer_links.assign(gpus, std::vector<PeerLink>(gpus, link));
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    machine.peer_links[gpu][gpu] = {LinkKind::same, machine.gpus[gpu].local_gb_s, true};
  }
  read_reach(file, machine);
}

HostLink host_link(const json::value& value) {
  const json::object& entry = value.get_object();
  return {number(entry, "to_gpu_gb_s"), number(entry, "from_gpu_gb_s"),
          flag(entry, "native_atomics")};
}

void read_host_links(const json::object& file, MachineDescription& machine) {
  const HostLink near = host_link(file.at("host_link"));
  const json::value* other = file.if_contains("far_host_link");
  const HostLink far = other == nullptr ? near : host_link(*other);
  for (const GpuDescription& gpu : machine.gpus) {
    auto& row = machine.host_links.emplace_back(machine.host_nodes.size(), far);
    row[static_cast<std::size_t>(gpu.host_node)] = near;
  }
}

void read_table(const json::object& costs, std::string_view key, CostTable& table) {
  const json::value* value = costs.if_contains(key);
  if (value == nullptr) return;
  const json::object& entry = value->get_object();
  table.sizes_mib = json::value_to<std::vector<double>>(entry.at("sizes_mib"));
  for (const json::value& gpus : entry.at("gpus").get_array()) {
    table.gpus.push_back(static_cast<int>(gpus.to_number<double>()));
  }
  table.us = json::value_to<std::vector<std::vector<double>>>(entry.at("us"));
  table.floor_us = number(entry, "floor_us", table.floor_us);
}

CostParameters read_costs(const json::object& json) {
  CostParameters costs;
  for (const auto& it : cost_tables()) read_table(json, it.key, costs.*it.member);
  for (const auto& it : cost_numbers()) costs.*it.member = number(json, it.key);
  for (const auto& it : cost_sizes()) costs.*it.member = mib(json, it.key);
  return costs;
}

}  // namespace

MachineDescription read_machine(const MachineDocument& document) {
  const json::object& file = document.json();
  MachineDescription machine;
  machine.name = text(file, "name");
  machine.source = text(file, "source");
  machine.granularity_bytes = static_cast<std::uint64_t>(number(file, "granularity_bytes"));
  machine.junk_fill = flag(file, "junk_fill");
  read_host_nodes(file, machine);
  read_gpus(file, machine);
  read_peers(file, machine);
  read_host_links(file, machine);
  machine.costs = read_costs(document.costs());
  return machine;
}

}  // namespace vma
