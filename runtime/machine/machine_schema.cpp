#include "machine/machine_schema.hpp"

#include "machine/cost_members.hpp"

#include <algorithm>

namespace vma {
namespace {

using Form = MachineKey::Form;

constexpr double memory_mib_max = 64.0 * 1024 * 1024;  // 64 TiB.
constexpr double gb_s_least = 0.001, gb_s_max = 1e6;
constexpr double us_max = 1e9;
constexpr double granularity_max = 1 << 30;
constexpr bool required = true, optional = false;

std::vector<MachineKey> keys_of_the_machine() {
  return {
      {"name", Form::text, required, 0, 0, ""},
      {"source", Form::text, required, 0, 0, ""},
      {"sources", Form::sources, required, 0, 0, ""},
      {"granularity_bytes", Form::integer, required, 4096, granularity_max, "bytes"},
      {"junk_fill", Form::flag, optional, 0, 0, ""},
      {"host_nodes", Form::objects, required, 0, 0, ""},
      {"host_nodes[].count", Form::integer, optional, 1, machine_host_nodes_max, "nodes"},
      {"host_nodes[].memory_mib", Form::integer, required, 1, memory_mib_max, "MiB"},
      {"gpus", Form::objects, required, 0, 0, ""},
      {"gpus[].name", Form::text, required, 0, 0, ""},
      {"gpus[].count", Form::integer, optional, 1, machine_gpus_max, "GPUs"},
      {"gpus[].memory_mib", Form::integer, required, 1, memory_mib_max, "MiB"},
      {"gpus[].multiprocessors", Form::integer, required, 1, 10'000, ""},
      {"gpus[].compute_capability", Form::integer, required, 10, 999, "tenths"},
      {"gpus[].copy_engines", Form::integer, required, 1, 64, ""},
      {"gpus[].hardware_queues", Form::integer, required, 1, 128, ""},
      {"gpus[].local_gb_s", Form::number, required, gb_s_least, gb_s_max, "GB/s"},
      {"gpus[].host_node", Form::integer, required, 0, machine_host_nodes_max - 1, ""},
      {"gpus[].gpus_per_host_node", Form::integer, optional, 0, machine_gpus_max, "GPUs"},
      {"peer_link", Form::object, optional, 0, 0, ""},
      {"peer_link.kind", Form::text, required, 0, 0, ""},
      {"peer_link.gb_s", Form::number, optional, gb_s_least, gb_s_max, "GB/s"},
      {"peer_link.both_ways_gb_s", Form::number, optional, gb_s_least, gb_s_max, "GB/s"},
      {"peer_link.native_atomics", Form::flag, optional, 0, 0, ""},
      {"reachable", Form::flags, optional, 0, 0, ""},
      {"host_link", Form::object, required, 0, 0, ""},
      {"host_link.to_gpu_gb_s", Form::number, required, gb_s_least, gb_s_max, "GB/s"},
      {"host_link.from_gpu_gb_s", Form::number, required, gb_s_least, gb_s_max, "GB/s"},
      {"host_link.native_atomics", Form::flag, optional, 0, 0, ""},
      {"far_host_link", Form::object, optional, 0, 0, ""},
      {"far_host_link.to_gpu_gb_s", Form::number, required, gb_s_least, gb_s_max, "GB/s"},
      {"far_host_link.from_gpu_gb_s", Form::number, required, gb_s_least, gb_s_max, "GB/s"},
      {"far_host_link.native_atomics", Form::flag, optional, 0, 0, ""},
      {"costs", Form::costs, required, 0, 0, ""},
      {"costs.*.sizes_mib", Form::numbers, required, 0, us_max, "MiB"},
      {"costs.*.gpus", Form::integers, required, 1, machine_gpus_max, "GPUs"},
      {"costs.*.us", Form::rows, required, 0, us_max, "us"},
      {"costs.*.floor_us", Form::number, optional, 0, us_max, "us"},
  };
}

void add_costs(std::vector<MachineKey>& keys) {
  const auto add = [&](const std::string& key, Form form, double most, const char* unit) {
    keys.push_back({"costs." + key, form, optional, 0, most, unit});
  };
  for (const auto& it : cost_tables()) add(it.key, Form::table, 0, "");
  for (const auto& it : cost_numbers()) {
    const std::string_view key = it.key;
    if (key.ends_with("_gb_s")) {
      add(it.key, Form::number, gb_s_max, "GB/s");
    } else {
      add(it.key, Form::number, us_max, key.ends_with("_per_mib") ? "us/MiB" : "us");
    }
  }
  for (const auto& it : cost_sizes()) add(it.key, Form::integer, memory_mib_max, "MiB");
}

}  // namespace

const std::vector<MachineKey>& machine_keys() {
  static const std::vector<MachineKey> keys = [] {
    std::vector<MachineKey> all = keys_of_the_machine();
    add_costs(all);
    return all;
  }();
  return keys;
}

const MachineKey* find_machine_key(std::string_view path) {
  const std::vector<MachineKey>& keys = machine_keys();
  const auto found = std::ranges::find(keys, path, &MachineKey::path);
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace vma
