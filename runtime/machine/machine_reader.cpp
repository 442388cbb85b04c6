#include "machine/machine_reader.hpp"

#include "base/json.hpp"
#include "base/units.hpp"
#include "machine/topology.hpp"

#include <boost/json/value_to.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <functional>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

/// Reads the members of an object; those that are missing keep their values in `description`.
template <typename Description>
void read_members(const json::object& object, std::string_view path, Description& description) {
  for_each_value(path, description, [&]<typename Value>(const MachineKey& key, Value& value) {
    const json::value* found = object.if_contains(key.name());
    if (found == nullptr) return;
    if constexpr (std::same_as<Value, CostTable>) {
      read_members(found->get_object(), "costs.*", value);
    } else {
      value = json::value_to<Value>(*found);
      if constexpr (std::same_as<Value, std::uint64_t>) {
        if (key.bounds.unit == "MiB") value *= MiB;
      }
    }
  });
}

int integer_or(const json::value& object, std::string_view key, int otherwise) {
  const json::value* value = object.get_object().if_contains(key);
  return value == nullptr ? otherwise : value->to_number<int>();
}

bool grows(const auto& numbers) {
  return !numbers.empty() &&
         std::ranges::adjacent_find(numbers, std::greater_equal{}) == numbers.end();
}

class MachineReader {
 public:
  MachineReader(const json::object& file, MachineProblems& problems)
      : file_(file), problems_(problems) {}

  MachineDescription read() {
    read_members(file_, "", machine_);
    if (!std::has_single_bit(machine_.granularity_bytes))
      refuse("granularity_bytes", "is not a power of two");
    if (const json::object* costs = file_.at("costs").if_object()) read_costs(*costs);
    const bool few_nodes = has_one_to("host_nodes", "nodes", machine_host_nodes_max);
    const bool few_gpus = has_one_to("gpus", "GPUs", machine_gpus_max);
    if (!few_nodes || !few_gpus) return std::move(machine_);
    read_host_nodes();
    read_gpus();
    read_peers();
    if (problems_.empty()) read_host_links();
    return std::move(machine_);
  }

 private:
  void refuse(std::string_view path, std::string_view reason) {
    problems_.push_back(fmt::format("{}: {}", path, reason));
  }

  bool has_one_to(const char* list, const char* what, int most) {
    std::int64_t count = 0;
    for (const json::value& entry : file_.at(list).get_array())
      count += integer_or(entry, "count", 1);
    if (count >= 1 && count <= most) return true;
    refuse(list, fmt::format("contains {} {}, not 1 to {}", count, what, most));
    return false;
  }

  void read_costs(const json::object& costs) {
    read_members(costs, "costs", machine_.costs);
    for_each_value("costs", machine_.costs, [&](const MachineKey& key, auto& cost) {
      if constexpr (requires { cost.us; }) {
        if (costs.contains(key.name())) check(std::string(key.path), cost);
      }
    });
  }

  void check(const std::string& path, const CostTable& table) {
    if (!grows(table.sizes_mib)) refuse(path + ".sizes_mib", "is empty or does not grow");
    if (!grows(table.gpus)) refuse(path + ".gpus", "is empty or does not grow");
    if (table.us.size() != table.gpus.size())
      refuse(path + ".us", "does not have a row for each of gpus");
    const auto fits = [&](const auto& row) { return row.size() == table.sizes_mib.size(); };
    if (!std::ranges::all_of(table.us, fits))
      refuse(path + ".us", "has a row whose length differs from sizes_mib");
  }

  void read_host_nodes() {
    for (const json::value& entry : file_.at("host_nodes").get_array()) {
      HostNodeDescription node;
      read_members(entry.get_object(), "host_nodes[]", node);
      const auto count = static_cast<std::size_t>(integer_or(entry, "count", 1));
      machine_.host_nodes.insert(machine_.host_nodes.end(), count, node);
    }
  }

  void read_gpus() {
    const json::array& entries = file_.at("gpus").get_array();
    const int nodes = static_cast<int>(machine_.host_nodes.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      GpuDescription gpu;
      read_members(entries[i].get_object(), "gpus[]", gpu);
      const int first = gpu.host_node, a_node = integer_or(entries[i], "gpus_per_host_node", 0);
      for (int n = 0; n < integer_or(entries[i], "count", 1); ++n) {
        gpu.host_node = first + (a_node > 0 ? n / a_node : 0);
        machine_.gpus.push_back(gpu);
      }
      const std::string path = join_path("gpus", i);
      if (first >= nodes) {
        refuse(path + ".host_node", fmt::format("{} is not between 0 and {}", first, nodes - 1));
      } else if (gpu.host_node >= nodes) {
        refuse(path + ".gpus_per_host_node", "there are fewer host nodes");
      }
    }
  }

  void read_peers() {
    const std::size_t gpus = machine_.gpus.size();
    PeerLink link;
    if (const json::value* value = file_.if_contains("peer_link")) {
      link = peer_link(value->get_object());
    } else if (gpus > 1) {
      refuse("peer_link", "is missing");
    }
    machine_.peer_links.assign(gpus, std::vector<PeerLink>(gpus, link));
    for (std::size_t gpu = 0; gpu < gpus; ++gpu)
      machine_.peer_links[gpu][gpu] = {LinkKind::same, machine_.gpus[gpu].local_gb_s, true};
    if (const json::value* rows = file_.if_contains("reachable")) read_reach(rows->get_array());
  }

  PeerLink peer_link(const json::object& object) {
    PeerLink link;
    read_members(object, "peer_link", link);
    const json::string& name = object.at("kind").get_string();
    const LinkKind kind = parse_link_kind(name).value_or(LinkKind::same);
    const bool joined = kind == LinkKind::nvlink || kind == LinkKind::pcie;
    if (kind == LinkKind::same)
      refuse("peer_link.kind",
             fmt::format("\"{}\" is not one of nvlink, pcie, none", name.c_str()));
    if (joined && link.gb_s == 0) refuse("peer_link.gb_s", "is missing");
    if (kind == LinkKind::none && link.gb_s > 0)
      refuse("peer_link.gb_s", "is not allowed here: there is no link");
    if (link.both_ways_gb_s > 0 && kind != LinkKind::nvlink) {
      refuse("peer_link.both_ways_gb_s", "is allowed only for NVLink");
    } else if (link.both_ways_gb_s > 0 && link.both_ways_gb_s < link.gb_s) {
      refuse("peer_link.both_ways_gb_s", "is less than gb_s, the rate of one direction");
    }
    link.kind = kind;
    return joined ? link : PeerLink{};
  }

  /// Which GPUs reach each other. Without a matrix, all pairs do.
  void read_reach(const json::array& rows) {
    const std::size_t gpus = machine_.gpus.size();
    if (rows.size() != gpus)
      return refuse("reachable", fmt::format("has {} rows for {} GPUs", rows.size(), gpus));
    for (std::size_t from = 0; from < gpus; ++from) {
      const json::array& row = rows[from].get_array();
      const std::string path = join_path("reachable", from);
      if (row.size() != gpus) {
        refuse(path, fmt::format("is not a row of {} entries", gpus));
        continue;
      }
      if (!row[from].get_bool()) refuse(path, "says that a GPU cannot reach itself");
      for (std::size_t to = 0; to < gpus; ++to) {
        if (from != to && !row[to].get_bool()) machine_.peer_links[from][to] = PeerLink{};
      }
    }
  }

  void read_host_links() {
    HostLink near;
    read_members(file_.at("host_link").get_object(), "host_link", near);
    HostLink far = near;
    if (const json::value* other = file_.if_contains("far_host_link")) {
      far = {};
      read_members(other->get_object(), "far_host_link", far);
    }
    for (const GpuDescription& gpu : machine_.gpus) {
      auto& row = machine_.host_links.emplace_back(machine_.host_nodes.size(), far);
      row[static_cast<std::size_t>(gpu.host_node)] = near;
    }
  }

  const json::object& file_;
  MachineProblems& problems_;
  MachineDescription machine_;
};

}  // namespace

MachineDescription read_machine(const json::object& file, MachineProblems& problems) {
  return MachineReader(file, problems).read();
}

}  // namespace vma
