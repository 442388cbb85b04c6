#include "measuring/machine_writer.hpp"

#include "base/json.hpp"
#include "base/units.hpp"
#include "machine/machine_schema.hpp"
#include "machine/topology.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value_from.hpp>
#include <fmt/format.h>

#include <optional>
#include <type_traits>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

[[noreturn]] void refuse(const char* reason) {
  throw Error(ErrorKind::unsupported, "machine_text", reason);
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

/// Adds the members of an object of the file, except optional numbers that mean none by being out
/// of bounds, and tables without a row.
template <typename Description>
json::object& add_members(json::object& json, std::string_view path,
                          const Description& description) {
  for_each_value(path, description, [&]<typename Value>(const MachineKey& key, const Value& value) {
    const json::string_view name = key.name();
    if constexpr (std::is_same_v<Value, CostTable>) {
      json::object table;
      if (!value.us.empty()) json[name] = add_members(table, "costs.*", value);
    } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
      json[name] = key.bounds.unit == "MiB" ? value / MiB : value;
    } else if constexpr (std::is_same_v<Value, double>) {
      const bool none = !key.required && value == 0 && key.bounds.least > 0;
      if (!none) json[name] = value;
    } else {
      json[name] = json::value_from(value);
    }
  });
  return json;
}

json::object peer_json(const PeerLink& link) {
  json::object peer{{"kind", to_string(link.kind)}};
  return add_members(peer, "peer_link", link);
}

json::object host_json(const HostLink& link) {
  json::object host;
  return add_members(host, "host_link", link);
}

json::array gpus_json(const MachineDescription& machine) {
  json::array entries;
  for (const auto& [first, count] : gpu_entries(machine)) {
    json::object entry{{"count", count}};
    entries.push_back(add_members(entry, "gpus[]", machine.gpus[first]));
  }
  return entries;
}

json::array nodes_json(const MachineDescription& machine) {
  json::array nodes;
  for (const HostNodeDescription& node : machine.host_nodes) {
    json::object entry;
    nodes.push_back(add_members(entry, "host_nodes[]", node));
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

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> gpu_entries(const MachineDescription& machine) {
  std::vector<std::pair<std::size_t, std::size_t>> entries;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (gpu > 0 && machine.gpus[gpu] == machine.gpus[gpu - 1]) {
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
  json::object costs;
  file["costs"] = add_members(costs, "costs", machine.costs);
  return readable_json(file, columns) + "\n";
}

}  // namespace vma
