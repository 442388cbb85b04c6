#include "tools/vmart-lab/lab_commands.hpp"

#include "base/units.hpp"
#include "base/whole_file.hpp"
#include "costs/calibration_file.hpp"
#include "lab/fidelity/median_calibration.hpp"
#include "lab/replay/replay_machine.hpp"
#include "machine/machine_file.hpp"
#include "machine/topology.hpp"
#include "measuring/machine_probe.hpp"
#include "placement/books/place_number.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

namespace vma {
namespace {

constexpr double giga = 1e9;

std::string gib(std::uint64_t bytes) {
  return fmt::format("{:.4g}", static_cast<double>(bytes) / GiB);
}

std::string gpus_of(const MachineDescription& machine) {
  std::map<std::string, int> counts;
  for (const GpuDescription& gpu : machine.gpus) ++counts[gpu.name];
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, name);
  }
  return text;
}

std::string peers_of(const MachineDescription& machine) {
  std::string_view kind = "none";
  double gb_s = 0;
  for (std::size_t from = 0; from < machine.gpus.size(); ++from) {
    for (std::size_t to = 0; to < machine.gpus.size(); ++to) {
      const PeerLink& link = machine.peer_links[from][to];
      if (from == to || link.kind == LinkKind::none) continue;
      kind = to_string(link.kind);
      gb_s = link.gb_s;
    }
  }
  return gb_s == 0 ? std::string(kind) : fmt::format("{} {:.0f}", kind, gb_s);
}

double both_ways_of(const MachineDescription& machine) {
  double gb_s = 0;
  for (const std::vector<PeerLink>& row : machine.peer_links)
    for (const PeerLink& link : row) gb_s = std::max(gb_s, link.both_ways_gb_s);
  return gb_s;
}

std::string host_link_of(const MachineDescription& machine) {
  const GpuDescription& gpu = machine.gpus.front();
  const HostLink& link = machine.host_links.front()[static_cast<std::size_t>(gpu.host_node)];
  return fmt::format("{:.0f}/{:.0f}", link.to_gpu_gb_s, link.from_gpu_gb_s);
}

/// Counts the numbers in the file by source: "measured 62 %, driver 20 %".
std::string sources_of(const MachineDocument& document) {
  std::map<SourceKind, std::size_t> counts;
  for (const SourcedNumber& number : document.numbers()) ++counts[number.source.kind];
  std::string text;
  for (const auto& [kind, count] : counts) {
    const double share =
        100.0 * static_cast<double>(count) / static_cast<double>(document.numbers().size());
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", to_string(kind), share);
  }
  return text;
}

void print_line(const std::string& name, const MachineDocument& document) {
  const MachineDescription machine = document.machine();
  const std::uint64_t host_bytes = std::accumulate(
      machine.host_nodes.begin(), machine.host_nodes.end(), std::uint64_t{0},
      [](std::uint64_t sum, const HostNodeDescription& node) { return sum + node.memory_bytes; });
  fmt::print("{:<14} {:<26} {:>8} {:>8} {:>5} {:>11} {:>9}  {}\n", name, gpus_of(machine),
             gib(machine.gpus.front().memory_bytes), gib(host_bytes), machine.host_nodes.size(),
             peers_of(machine), host_link_of(machine), sources_of(document));
}

/// The costs of a route that matter in a replay.
struct RouteCosts {
  double access_rate = 0, copy_rate = 0;
  Time latency{0}, move_fixed{0}, stall_fixed{0};
  double move_per_byte = 0, stall_per_byte = 0;

  bool operator==(const RouteCosts&) const = default;
};

/// A group of routes with equal costs.
struct RouteKind {
  RouteCosts costs;
  bool between_same = false;  // Routes from a place to itself.
  std::string first;
  std::size_t routes = 0;
};

RouteCosts route_costs(const MachineCosts& costs, PlaceId from, PlaceId to) {
  RouteCosts route;
  if (costs.reaches(from, to)) {
    route.access_rate = costs.access_rate(from, to);
    route.latency = costs.access_latency(from, to);
  }
  route.copy_rate = costs.copy_rate(from, to);
  route.move_fixed = costs.move_fixed(from, to);
  route.move_per_byte = costs.move_per_byte(from, to);
  route.stall_fixed = costs.stall_fixed(from, to);
  route.stall_per_byte = costs.stall_per_byte(from, to);
  return route;
}

std::vector<RouteKind> route_kinds(const ReplayMachine& machine) {
  std::vector<RouteKind> kinds;
  for (std::size_t from = 0; from < machine.places.size(); ++from) {
    for (std::size_t to = 0; to < machine.places.size(); ++to) {
      const RouteCosts costs = route_costs(machine.costs, place_numbered(from), place_numbered(to));
      auto found = std::ranges::find_if(kinds, [&](const RouteKind& kind) {
        return kind.costs == costs && kind.between_same == (from == to);
      });
      if (found == kinds.end()) {
        const std::string name = fmt::format("{} -> {}", to_string(machine.places[from].place),
                                             to_string(machine.places[to].place));
        found = kinds.insert(kinds.end(), {costs, from == to, name, 0});
      }
      ++found->routes;
    }
  }
  return kinds;
}

/// "-" if the value is zero.
std::string number(double value) {
  return value == 0 ? "-" : fmt::format("{:.4g}", value);
}

double us(Time time) {
  return static_cast<double>(time.count()) / 1e3;
}

void print_routes(const std::vector<RouteKind>& kinds) {
  constexpr double us_a_mib = 1e6 * MiB;
  fmt::print("{:<20} {:>6} {:>9} {:>10} {:>9} {:>8} {:>11} {:>8} {:>11}\n", "from -> to", "routes",
             "read GB/s", "latency ns", "copy GB/s", "move us", "+ us/MiB", "stall us", "+ us/MiB");
  for (const RouteKind& kind : kinds) {
    const RouteCosts& costs = kind.costs;
    fmt::print("{:<20} {:>6} {:>9} {:>10} {:>9} {:>8} {:>11} {:>8} {:>11}\n", kind.first,
               kind.routes, number(costs.access_rate / giga),
               number(static_cast<double>(costs.latency.count())), number(costs.copy_rate / giga),
               number(us(costs.move_fixed)), number(costs.move_per_byte * us_a_mib),
               number(us(costs.stall_fixed)), number(costs.stall_per_byte * us_a_mib));
  }
}

bool check(const MachineDocument& document) {
  if (document.problems().empty()) fmt::print("{}: ok\n", document.file());
  for (const std::string& problem : document.problems()) fmt::print("{}\n", problem);
  return document.problems().empty();
}

constexpr const char* probe_call = "vmart-lab machine probe";
const WholeFile::Terms probe_terms{probe_call, ErrorKind::invalid_argument, 0644};

}  // namespace

int run_machine_check(const std::vector<std::string>& files) {
  bool right = true;
  for (const std::string& name : files) {
    try {
      right = check(MachineDocument::load(find_machine_file(name))) && right;
    } catch (const Error& error) {  // No folder has a machine with that name.
      fmt::print("{}\n", error.what());
      right = false;
    }
  }
  return right ? 0 : 1;
}

int run_machine_list() {
  bool right = true;
  fmt::print("{:<14} {:<26} {:>8} {:>8} {:>5} {:>11} {:>9}  {}\n", "machine", "GPUs", "GiB each",
             "host GiB", "nodes", "peers GB/s", "host GB/s", "its numbers");
  for (const std::string& name : machine_names()) {
    const MachineDocument document = MachineDocument::load(find_machine_file(name));
    if (document.problems().empty()) {
      print_line(name, document);
    } else {
      fmt::print("{:<14} {}\n", name, document.problems().front());
      right = false;
    }
  }
  return right ? 0 : 1;
}

int run_machine_show(const std::string& name) {
  const MachineDescription description = load_machine(name);
  const ReplayMachine machine = replay_machine(description);
  fmt::print("{}: {}\n", description.name, description.source);
  for (const PlaceState& place : machine.places) {
    if (place.place.ordinal == 0) {
      fmt::print("{} {} GiB for a replay\n", to_string(place.place), gib(place.capacity_bytes));
    }
  }
  const double both = both_ways_of(description);
  fmt::print("peers GB/s: {}{}\n", peers_of(description),
             both > 0 ? fmt::format("; by kernels {:.4g} in and out together", both) : "");
  fmt::print(
      "\nreads are those of a kernel on the first place, of memory at the second; a move takes its "
      "copy\nplus the columns beside it; streams wait only for the stall\n\n");
  print_routes(route_kinds(machine));
  return 0;
}

int run_probe(const ProbeCommand& command) {
  // Fails now rather than after minutes of measuring.
  WholeFile::require_possible(command.output, probe_terms);
  RuntimeOptions options;
  options.driver = command.driver;
  MachineProbe::Options probe;
  probe.name = command.name;
  probe.say = [](const std::string& what) { fmt::print(stderr, "vmart-lab: {}\n", what); };
  const std::string text =
      MachineProbe(open_driver(resolve_settings(options).driver), std::move(probe)).run();
  const MachineDocument document = MachineDocument::parse(text, command.output);
  if (!document.problems().empty()) {
    throw Error(ErrorKind::invalid_argument, probe_call,
                "the result is not a valid machine file: " + document.problems().front());
  }
  WholeFile file(command.output, probe_terms);
  file.write(text);
  file.become(command.output);
  fmt::print("{}: {} numbers\n", command.output, document.numbers().size());
  return 0;
}

int run_calibrations(const CalibrationsCommand& command) {
  std::vector<Calibration> calibrations;
  for (const std::string& file : command.files) calibrations.push_back(read_calibration(file));
  const MedianCalibration found = median_calibration(calibrations);
  fmt::print("{}\n\n{:<26} {:>12} {:>12} {:>12} {:>8}\n", found.calibration.machine,
             "where they differ most", "least", "median", "most", "spread");
  for (const CalibrationSpread& each : found.spreads)
    fmt::print("{:<26} {:>12.4g} {:>12.4g} {:>12.4g} {:>6.1f} %\n", each.key + each.where,
               each.least, each.median, each.most, 100 * each.share());
  if (!command.output.empty()) write_calibration(command.output, found.calibration);
  return 0;
}

}  // namespace vma
