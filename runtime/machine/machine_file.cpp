#include "machine/machine_file.hpp"

#include "base/units.hpp"
#include "machine/json_reader.hpp"
#include "machine/machine_folder.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace vma {
namespace {

constexpr const char* call = "load_machine";
constexpr int gpus_max = 128;
constexpr int host_nodes_max = 64;
constexpr std::int64_t memory_mib_max = 64ll * 1024 * 1024;  // 64 TiB.
constexpr double gb_s_max = 1e6;
constexpr double us_max = 1e9;
constexpr int costs_links_max = 4;  // Machines whose costs are "those of" another, in a row.

CostParameters read_costs(JsonReader& machine, int links_left);

LinkKind read_kind(JsonReader& reader) {
  const std::string kind = reader.text("kind");
  if (kind == "nvlink") return LinkKind::nvlink;
  if (kind == "pcie") return LinkKind::pcie;
  if (kind == "none") return LinkKind::none;
  reader.refuse("kind", fmt::format("\"{}\" is none of nvlink, pcie, none", kind));
}

void read_gpus(JsonReader& file, MachineDescription& machine) {
  const std::size_t entries = file.list("gpus").size();
  for (std::size_t i = 0; i < entries; ++i) {
    JsonReader reader = file.element("gpus", i);
    const auto count = reader.integer_or("count", 1, 1, gpus_max);
    GpuDescription gpu;
    gpu.name = reader.text("name");
    gpu.memory_bytes =
        static_cast<std::uint64_t>(reader.integer("memory_mib", 1, memory_mib_max)) * MiB;
    gpu.multiprocessors = static_cast<int>(reader.integer("multiprocessors", 1, 10'000));
    gpu.compute_capability = static_cast<int>(reader.integer("compute_capability", 10, 999));
    gpu.copy_engines = static_cast<int>(reader.integer("copy_engines", 1, 64));
    gpu.hardware_queues = static_cast<int>(reader.integer("hardware_queues", 1, 128));
    gpu.local_gb_s = reader.number("local_gb_s", 0.001, gb_s_max);
    const auto node =
        reader.integer("host_node", 0, static_cast<std::int64_t>(machine.host_nodes.size()) - 1);
    const auto gpus_per_node = reader.integer_or("gpus_per_host_node", 0, 0, gpus_max);
    reader.finish();
    for (int n = 0; n < count; ++n) {
      gpu.host_node = static_cast<int>(node + (gpus_per_node > 0 ? n / gpus_per_node : 0));
      if (gpu.host_node >= static_cast<int>(machine.host_nodes.size())) {
        reader.refuse("gpus_per_host_node", "there are not so many host nodes");
      }
      machine.gpus.push_back(gpu);
    }
  }
  if (machine.gpus.empty() || machine.gpus.size() > gpus_max) {
    file.refuse("gpus", fmt::format("holds {} GPUs, not 1 to {}", machine.gpus.size(), gpus_max));
  }
}

void read_host_nodes(JsonReader& file, MachineDescription& machine) {
  const std::size_t entries = file.list("host_nodes").size();
  for (std::size_t i = 0; i < entries; ++i) {
    JsonReader reader = file.element("host_nodes", i);
    const auto count = reader.integer_or("count", 1, 1, host_nodes_max);
    HostNodeDescription node;
    node.memory_bytes =
        static_cast<std::uint64_t>(reader.integer("memory_mib", 1, memory_mib_max)) * MiB;
    reader.finish();
    machine.host_nodes.insert(machine.host_nodes.end(), static_cast<std::size_t>(count), node);
  }
  if (machine.host_nodes.empty() || machine.host_nodes.size() > host_nodes_max) {
    file.refuse("host_nodes", fmt::format("holds {} nodes, not 1 to {}", machine.host_nodes.size(),
                                          host_nodes_max));
  }
}

/// A matrix of who reaches whom; without one every pair does.
void read_reach(JsonReader& file, MachineDescription& machine) {
  if (!file.has("reachable")) return;
  const std::size_t gpus = machine.gpus.size();
  const boost::json::array& rows = file.list("reachable");
  if (rows.size() != gpus) {
    file.refuse("reachable", fmt::format("has {} rows for {} GPUs", rows.size(), gpus));
  }
  for (std::size_t from = 0; from < gpus; ++from) {
    const boost::json::array* row = rows[from].if_array();
    const std::string key = fmt::format("reachable[{}]", from);
    if (row == nullptr || row->size() != gpus) {
      file.refuse(key, fmt::format("is no row of {} entries", gpus));
    }
    for (std::size_t to = 0; to < gpus; ++to) {
      const bool* reaches = (*row)[to].if_bool();
      if (reaches == nullptr) file.refuse(key, "holds what is neither true nor false");
      if (from == to && !*reaches) file.refuse(key, "says that a GPU cannot reach itself");
      if (from != to && !*reaches) machine.peer_links[from][to] = PeerLink{};
    }
  }
}

void read_peers(JsonReader& file, MachineDescription& machine) {
  const std::size_t gpus = machine.gpus.size();
  PeerLink link;
  if (gpus > 1 || file.has("peer_link")) {
    JsonReader reader = file.object("peer_link");
    link.kind = read_kind(reader);
    if (link.kind != LinkKind::none) {
      link.gb_s = reader.number("gb_s", 0.001, gb_s_max);
      link.native_atomics = reader.flag("native_atomics", false);
    }
    reader.finish();
  }
  machine.peer_links.assign(gpus, std::vector<PeerLink>(gpus, link));
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    machine.peer_links[gpu][gpu] = {LinkKind::same, machine.gpus[gpu].local_gb_s, true};
  }
  read_reach(file, machine);
}

HostLink read_host_link(JsonReader& file, std::string_view key) {
  JsonReader reader = file.object(key);
  const HostLink link{reader.number("to_gpu_gb_s", 0.001, gb_s_max),
                      reader.number("from_gpu_gb_s", 0.001, gb_s_max)};
  reader.finish();
  return link;
}

void read_host_links(JsonReader& file, MachineDescription& machine) {
  const HostLink near = read_host_link(file, "host_link");
  const HostLink far = file.has("far_host_link") ? read_host_link(file, "far_host_link") : near;
  for (const GpuDescription& gpu : machine.gpus) {
    auto& row = machine.host_links.emplace_back(machine.host_nodes.size(), far);
    row[static_cast<std::size_t>(gpu.host_node)] = near;
  }
}

std::vector<double> read_numbers(JsonReader& reader, std::string_view key,
                                 const boost::json::value& value, double most) {
  const boost::json::array* array = value.if_array();
  if (array == nullptr || array->empty()) reader.refuse(key, "is no list of numbers");
  std::vector<double> numbers;
  for (const boost::json::value& entry : *array) {
    const double number = entry.is_number() ? entry.to_number<double>() : -1;
    if (!(number >= 0 && number <= most)) {
      reader.refuse(key, fmt::format("holds what is no number between 0 and {}", most));
    }
    numbers.push_back(number);
  }
  return numbers;
}

void read_table(JsonReader& costs, std::string_view key, CostTable& table) {
  if (!costs.has(key)) return;
  JsonReader reader = costs.object(key);
  table.sizes_mib = read_numbers(reader, "sizes_mib", reader.at("sizes_mib"), 1e9);
  if (!std::is_sorted(table.sizes_mib.begin(), table.sizes_mib.end(), std::less_equal<>())) {
    reader.refuse("sizes_mib", "does not grow");
  }
  for (double gpus : read_numbers(reader, "gpus", reader.at("gpus"), gpus_max)) {
    if (!table.gpus.empty() && table.gpus.back() >= gpus) reader.refuse("gpus", "does not grow");
    table.gpus.push_back(static_cast<int>(gpus));
  }
  for (const boost::json::value& row : reader.list("us")) {
    table.us.push_back(read_numbers(reader, "us", row, us_max));
    if (table.us.back().size() != table.sizes_mib.size()) {
      reader.refuse("us", "has a row of another length than sizes_mib");
    }
  }
  if (table.us.size() != table.gpus.size()) reader.refuse("us", "has no row for each of gpus");
  table.floor_us = reader.number_or("floor_us", table.floor_us, 0, us_max);
  reader.finish();
}

void read_cost_tables(JsonReader& reader, CostParameters& costs) {
  read_table(reader, "create", costs.create);
  read_table(reader, "release", costs.release);
  read_table(reader, "unmap", costs.unmap);
  read_table(reader, "grant_cold", costs.grant_cold);
  read_table(reader, "grant_first", costs.grant_first);
  read_table(reader, "grant_later", costs.grant_later);
  read_table(reader, "grant_shadow", costs.grant_shadow);
  read_table(reader, "grant_first_own_class", costs.grant_first_own_class);
  read_table(reader, "grant_later_own_class", costs.grant_later_own_class);
}

void read_cost_numbers(JsonReader& reader, CostParameters& costs) {
  const auto us = [&](std::string_view key, double& value) {
    value = reader.number_or(key, value, 0, us_max);
  };
  us("host_grant_us_per_mib", costs.host_grant_us_per_mib);
  us("host_unmap_us_per_mib", costs.host_unmap_us_per_mib);
  us("plain_allocate_us", costs.plain_allocate_us);
  us("plain_free_us", costs.plain_free_us);
  us("reserve_us", costs.reserve_us);
  us("unreserve_us", costs.unreserve_us);
  us("map_us", costs.map_us);
  us("launch_us", costs.launch_us);
  us("record_us", costs.record_us);
  us("batch_us", costs.batch_us);
  us("wait_us", costs.wait_us);
  us("query_us", costs.query_us);
  us("enqueue_us", costs.enqueue_us);
  us("hold_us", costs.hold_us);
  us("create_event_us", costs.create_event_us);
  us("create_stream_us", costs.create_stream_us);
  us("open_context_us", costs.open_context_us);
  us("load_kernel_us", costs.load_kernel_us);
  us("kernel_us", costs.kernel_us);
  us("copy_latency_us", costs.copy_latency_us);
  costs.host_create_gb_s = reader.number_or("host_create_gb_s", 0, 0, gb_s_max);
  costs.host_copy_gb_s = reader.number_or("host_copy_gb_s", 0, 0, gb_s_max);
  costs.size_class_bytes =
      static_cast<std::uint64_t>(reader.integer_or("size_class_mib", 0, 0, memory_mib_max)) * MiB;
  costs.context_bytes =
      static_cast<std::uint64_t>(reader.integer_or("context_mib", 0, 0, memory_mib_max)) * MiB;
}

MachineDescription read_machine(const JsonText& text, int links_left) {
  JsonReader reader(text);
  MachineDescription machine;
  machine.name = reader.text("name");
  machine.source = reader.text("source");
  machine.granularity_bytes =
      static_cast<std::uint64_t>(reader.integer("granularity_bytes", 4096, 1 << 30));
  if (!std::has_single_bit(machine.granularity_bytes)) {
    reader.refuse("granularity_bytes", "is no power of two");
  }
  machine.junk_fill = reader.flag("junk_fill", false);
  read_host_nodes(reader, machine);
  read_gpus(reader, machine);
  read_peers(reader, machine);
  read_host_links(reader, machine);
  machine.costs = read_costs(reader, links_left);
  reader.finish();
  return machine;
}

MachineDescription load_file(const std::string& path, int links_left) {
  return read_machine(JsonText::load(path, call), links_left);
}

/// An object of costs, or the name of the machine file whose costs are the same.
CostParameters read_costs(JsonReader& machine, int links_left) {
  if (const boost::json::string* name = machine.at("costs").if_string()) {
    if (links_left == 0) machine.refuse("costs", "names a machine that names a machine, too often");
    return load_file(find_machine_file(std::string(*name), machine.file()), links_left - 1).costs;
  }
  JsonReader reader = machine.object("costs");
  CostParameters costs;
  read_cost_tables(reader, costs);
  read_cost_numbers(reader, costs);
  reader.finish();
  return costs;
}

}  // namespace

MachineDescription load_machine(const std::string& name_or_path) {
  return load_file(find_machine_file(name_or_path, ""), costs_links_max);
}

MachineDescription parse_machine(std::string_view text, const std::string& file) {
  return read_machine(JsonText(std::string(text), file, call), costs_links_max);
}

std::vector<std::string> machine_names() {
  return list_machine_files();
}

}  // namespace vma
