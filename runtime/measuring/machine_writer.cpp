#include "measuring/machine_writer.hpp"

#include "base/units.hpp"
#include "machine/cost_members.hpp"
#include "machine/link_kind.hpp"

#include <vma/error.hpp>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace vma {
namespace {

[[noreturn]] void refuse(const char* reason) {
  throw Error(ErrorKind::unsupported, "machine_text", reason);
}

std::string json_quoted(const std::string& text) {
  return boost::json::serialize(boost::json::string(text));
}

auto facts(const GpuDescription& gpu) {
  return std::tie(gpu.name, gpu.memory_bytes, gpu.multiprocessors, gpu.compute_capability,
                  gpu.copy_engines, gpu.hardware_queues, gpu.host_node, gpu.local_gb_s);
}

/// The one value that there is; none where there are none.
class Only {
 public:
  explicit Only(const char* reason) : reason_(reason) {}
  void see(const std::string& text) {
    if (!text_) text_ = text;
    if (*text_ != text) refuse(reason_);
  }
  const std::optional<std::string>& text() const { return text_; }

 private:
  const char* reason_;
  std::optional<std::string> text_;
};

std::string peer_text(const PeerLink& link) {
  const std::string both =
      link.both_ways_gb_s > 0 ? fmt::format(R"(, "both_ways_gb_s": {})", link.both_ways_gb_s) : "";
  return fmt::format(R"({{"kind": "{}", "gb_s": {}{}, "native_atomics": {}}})",
                     to_string(link.kind), link.gb_s, both, link.native_atomics);
}

std::string host_text(const HostLink& link) {
  return fmt::format(R"({{"to_gpu_gb_s": {}, "from_gpu_gb_s": {}, "native_atomics": {}}})",
                     link.to_gpu_gb_s, link.from_gpu_gb_s, link.native_atomics);
}

std::string table_text(const CostTable& table) {
  std::vector<std::string> rows;
  for (const std::vector<double>& row : table.us) {
    rows.push_back(fmt::format("[{}]", fmt::join(row, ", ")));
  }
  return fmt::format(R"({{"sizes_mib": [{}], "gpus": [{}], "us": [{}], "floor_us": {}}})",
                     fmt::join(table.sizes_mib, ", "), fmt::join(table.gpus, ", "),
                     fmt::join(rows, ", "), table.floor_us);
}

/// Members of an object, a line each.
class Members {
 public:
  explicit Members(int depth) : indent_(static_cast<std::size_t>(depth) * 2, ' ') {}
  void add(const std::string& key, const std::string& value) {
    text_ +=
        fmt::format("{}\n{}{}: {}", text_.empty() ? "" : ",", indent_, json_quoted(key), value);
  }
  /// With what closes it.
  std::string text() const {
    return fmt::format("{{{}\n{}}}", text_, indent_.substr(0, indent_.size() - 2));
  }

 private:
  std::string indent_, text_;
};

std::string gpus_text(const MachineDescription& machine) {
  std::vector<std::string> entries;
  for (const auto& [first, count] : gpu_entries(machine)) {
    const GpuDescription& gpu = machine.gpus[first];
    Members members(3);
    members.add("count", fmt::to_string(count));
    members.add("name", json_quoted(gpu.name));
    members.add("memory_mib", fmt::to_string(gpu.memory_bytes / MiB));
    members.add("multiprocessors", fmt::to_string(gpu.multiprocessors));
    members.add("compute_capability", fmt::to_string(gpu.compute_capability));
    members.add("copy_engines", fmt::to_string(gpu.copy_engines));
    members.add("hardware_queues", fmt::to_string(gpu.hardware_queues));
    members.add("host_node", fmt::to_string(gpu.host_node));
    members.add("local_gb_s", fmt::to_string(gpu.local_gb_s));
    entries.push_back("\n    " + members.text());
  }
  return fmt::format("[{}\n  ]", fmt::join(entries, ","));
}

std::string nodes_text(const MachineDescription& machine) {
  std::vector<std::string> nodes;
  for (const HostNodeDescription& node : machine.host_nodes) {
    nodes.push_back(fmt::format(R"({{"memory_mib": {}}})", node.memory_bytes / MiB));
  }
  return fmt::format("[{}]", fmt::join(nodes, ", "));
}

void add_peers(const MachineDescription& machine, Members& file) {
  Only peers(
      "GPUs are connected by links of several kinds or rates, which a machine file cannot "
      "describe");
  std::vector<std::string> rows;
  bool all_reach = true;
  for (std::size_t from = 0; from < machine.gpus.size(); ++from) {
    std::vector<const char*> row;
    for (std::size_t to = 0; to < machine.gpus.size(); ++to) {
      const PeerLink& link = machine.peer_links[from][to];
      const bool reaches = from == to || link.kind != LinkKind::none;
      if (from != to && reaches) peers.see(peer_text(link));
      all_reach = all_reach && reaches;
      row.push_back(reaches ? "true" : "false");
    }
    rows.push_back(fmt::format("\n    [{}]", fmt::join(row, ", ")));
  }
  if (machine.gpus.size() < 2) return;
  file.add("peer_link", peers.text().value_or(R"({"kind": "none"})"));
  if (peers.text() && !all_reach) {
    file.add("reachable", fmt::format("[{}\n  ]", fmt::join(rows, ",")));
  }
}

void add_host_links(const MachineDescription& machine, Members& file) {
  constexpr const char* reason =
      "GPUs reach host nodes by links of several rates, which a machine file cannot describe";
  Only near(reason), far(reason);
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    for (std::size_t node = 0; node < machine.host_nodes.size(); ++node) {
      const bool own = static_cast<std::size_t>(machine.gpus[gpu].host_node) == node;
      (own ? near : far).see(host_text(machine.host_links[gpu][node]));
    }
  }
  file.add("host_link", near.text().value());
  if (far.text()) file.add("far_host_link", *far.text());
}

std::string costs_text(const CostParameters& costs) {
  Members object(2);
  for (const auto& it : cost_tables()) {
    if (!(costs.*it.member).us.empty()) object.add(it.key, table_text(costs.*it.member));
  }
  for (const auto& it : cost_numbers()) object.add(it.key, fmt::to_string(costs.*it.member));
  for (const auto& it : cost_sizes()) object.add(it.key, fmt::to_string(costs.*it.member / MiB));
  return object.text();
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
  Members origin(2);
  for (const SourcedNumber& number : sources) {
    origin.add(number.path, json_quoted(fmt::format("{}: {}", to_string(number.source.kind),
                                                    number.source.from)));
  }
  Members file(1);
  file.add("name", json_quoted(machine.name));
  file.add("source", json_quoted(machine.source));
  file.add("sources", origin.text());
  file.add("granularity_bytes", fmt::to_string(machine.granularity_bytes));
  if (machine.junk_fill) file.add("junk_fill", "true");
  file.add("host_nodes", nodes_text(machine));
  file.add("gpus", gpus_text(machine));
  add_peers(machine, file);
  add_host_links(machine, file);
  file.add("costs", costs_text(machine.costs));
  return file.text() + "\n";
}

}  // namespace vma
