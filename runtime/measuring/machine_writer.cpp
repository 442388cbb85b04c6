#include "measuring/machine_writer.hpp"

#include "base/units.hpp"
#include "machine/cost_members.hpp"
#include "machine/link_kind.hpp"
#include "machine/readable_json.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value_from.hpp>
#include <fmt/format.h>

#include <optional>
#include <tuple>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

[[noreturn]] void refuse(const char* reason) {
  throw Error(ErrorKind::unsupported, "machine_text", reason);
}

auto facts(const GpuDescription& gpu) {
  return std::tie(gpu.name, gpu.memory_bytes, gpu.multiprocessors, gpu.compute_capability,
                  gpu.copy_engines, gpu.hardware_queues, gpu.host_node, gpu.local_gb_s);
}

/// Collects values that must all be equal; none if there are none.
class Only {
 public:
  explicit Only(const char* reason) : reason_(reason) {}
  void see(json::object value) {
    if (!value_)
      value_ = std::move(value);
    else if (*value_ != value)
      refuse(reason_);
  }
  const std::optional<json::object>& value() const { return value_; }

 private:
  const char* reason_;
  std::optional<json::object> value_;
};

json::object peer_json(const PeerLink& link) {
  json::object peer{{"kind", to_string(link.kind)}, {"gb_s", link.gb_s}};
  if (link.both_ways_gb_s > 0) peer["both_ways_gb_s"] = link.both_ways_gb_s;
  peer["native_atomics"] = link.native_atomics;
  return peer;
}

json::object host_json(const HostLink& link) {
  return {{"to_gpu_gb_s", link.to_gpu_gb_s},
          {"from_gpu_gb_s", link.from_gpu_gb_s},
          {"native_atomics", link.native_atomics}};
}

json::object table_json(const CostTable& table) {
  return {{"sizes_mib", json::value_from(table.sizes_mib)},
          {"gpus", json::value_from(table.gpus)},
          {"us", json::value_from(table.us)},
          {"floor_us", table.floor_us}};
}

json::array gpus_json(const MachineDescription& machine) {
  json::array entries;
  for (const auto& [first, count] : gpu_entries(machine)) {
    const GpuDescription& gpu = machine.gpus[first];
    entries.push_back({{"count", count},
                       {"name", gpu.name},
                       {"memory_mib", gpu.memory_bytes / MiB},
                       {"multiprocessors", gpu.multiprocessors},
                       {"compute_capability", gpu.compute_capability},
                       {"copy_engines", gpu.copy_engines},
                       {"hardware_queues", gpu.hardware_queues},
                       {"host_node", gpu.host_node},
                       {"local_gb_s", gpu.local_gb_s}});
  }
  return entries;
}

json::array nodes_json(const MachineDescription& machine) {
  json::array nodes;
  for (const HostNodeDescription& node : machine.host_nodes) {
    nodes.push_back(json::object{{"memory_mib", node.memory_bytes / MiB}});
  }
  return nodes;
}

void add_peers(const MachineDescription& machine, json::object& file) {
  Only peers(
      "GPUs are connected by links of several kinds or rates, which a machine file cannot "
      "describe");
  json::array rows;
  bool all_reach = true;
  for (std::size_t from = 0; from < machine.gpus.size(); ++from) {
    json::array row;
    for (std::size_t to = 0; to < machine.gpus.size(); ++to) {
      const PeerLink& link = machine.peer_links[from][to];
      const bool reaches = from == to || link.kind != LinkKind::none;
      if (from != to && reaches) peers.see(peer_json(link));
      all_reach = all_reach && reaches;
      row.push_back(reaches);
    }
    rows.push_back(std::move(row));
  }
  if (machine.gpus.size() < 2) return;
  file["peer_link"] = peers.value().value_or(json::object{{"kind", "none"}});
  if (peers.value() && !all_reach) file["reachable"] = std::move(rows);
}

void add_host_links(const MachineDescription& machine, json::object& file) {
  constexpr const char* reason =
      "GPUs reach host nodes by links of several rates, which a machine file cannot describe";
  Only near(reason), far(reason);
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    for (std::size_t node = 0; node < machine.host_nodes.size(); ++node) {
      const bool own = static_cast<std::size_t>(machine.gpus[gpu].host_node) == node;
      (own ? near : far).see(host_json(machine.host_links[gpu][node]));
    }
  }
  file["host_link"] = near.value().value();
  if (far.value()) file["far_host_link"] = *far.value();
}

json::object costs_json(const CostParameters& costs) {
  json::object object;
  for (const auto& it : cost_tables()) {
    if (!(costs.*it.member).us.empty()) object[it.key] = table_json(costs.*it.member);
  }
  for (const auto& it : cost_numbers()) object[it.key] = costs.*it.member;
  for (const auto& it : cost_sizes()) object[it.key] = costs.*it.member / MiB;
  return object;
}

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> gpu_entries(const MachineDescription& machine) {
  std::vector<std::pair<std::size_t, std::size_t>> entries;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (gpu > 0 && facts(machine.gpus[gpu]) == facts(machine.gpus[gpu - 1])) {
      ++entries.back().second;
    } else {
      entries.emplace_back(gpu, 1);
    }
  }
  return entries;
}

std::string machine_text(const MachineDescription& machine,
                         const std::vector<SourcedNumber>& sources) {
  constexpr std::size_t columns = 100;
  json::object origins;
  for (const SourcedNumber& number : sources) {
    origins[number.path] = fmt::format("{}: {}", to_string(number.source.kind), number.source.from);
  }
  json::object file{{"name", machine.name},
                    {"source", machine.source},
                    {"sources", std::move(origins)},
                    {"granularity_bytes", machine.granularity_bytes}};
  if (machine.junk_fill) file["junk_fill"] = true;
  file["host_nodes"] = nodes_json(machine);
  file["gpus"] = gpus_json(machine);
  add_peers(machine, file);
  add_host_links(machine, file);
  file["costs"] = costs_json(machine.costs);
  return readable_json(file, columns) + "\n";
}

}  // namespace vma
