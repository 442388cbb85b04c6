#include "measuring/machine_probe.hpp"

#include "base/units.hpp"
#include "base/vectors.hpp"
#include "driver/driver.hpp"
#include "machine/machine_description.hpp"
#include "machine/machine_file.hpp"
#include "machine/machine_schema.hpp"
#include "machine/topology.hpp"
#include "measuring/chunk_probe.hpp"
#include "measuring/machine_writer.hpp"
#include "measuring/stream_probe.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"
#include "sim/sim_driver.hpp"

#include <vma/error.hpp>
#include <vma/runtime.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

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

/// What the driver reports about the machine: a description in which rates, costs and the memory of
/// host nodes are 0. If the driver does not allocate host memory, one node represents the host.
/// Throws: Error{no_driver} without a GPU.
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

/// Memory of a host node of this system; 0 if unknown.
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

constexpr std::chrono::seconds calls_limit(15);
constexpr std::chrono::seconds calibration_limit(15);
constexpr const char* costs_from = "h200x2";  // Its costs replace those that were not measured.

/// Keeps four digits, more than two measurements agree on.
double rounded(double value) {
  if (!(value > 0)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 3);
  return std::stod(fmt::format("{:.10g}", std::round(value / unit) * unit));
}

void round_costs(CostParameters& costs) {
  for_each_value("costs", costs, [](const MachineKey&, auto& cost) {
    if constexpr (requires { cost.us; }) {
      for (std::vector<double>& row : cost.us) {
        for (double& us : row) us = rounded(us);
      }
    } else if constexpr (std::is_same_v<decltype(cost), double&>) {
      cost = rounded(cost);
    }
  });
}

PlaceId place_in(const Calibration& calibration, Place at) {
  const auto found = std::ranges::find(calibration.places, at);
  return PlaceId{static_cast<std::uint8_t>(found - calibration.places.begin())};
}

/// Contexts that a probe opens on all GPUs. The destructor closes them.
class OpenContexts {
 public:
  explicit OpenContexts(Driver& driver) : driver_(driver) {}
  ~OpenContexts() {
    for (const DeviceId device : open_) {
      try {
        driver_.release_primary(device);
      } catch (const Error&) {  // The process ends soon; the driver then releases the rest.
      }
    }
  }
  OpenContexts(const OpenContexts&) = delete;
  OpenContexts& operator=(const OpenContexts&) = delete;

  ContextHandle open(DeviceId device) {
    const ContextHandle context = driver_.retain_primary(device);
    open_.push_back(device);
    return context;
  }

 private:
  Driver& driver_;
  std::vector<DeviceId> open_;
};

}  // namespace

MachineProbe::MachineProbe(std::unique_ptr<Driver> driver, Options options)
    : driver_(std::move(driver)),
      options_(std::move(options)),
      description_(driver_->description()),
      simulated_(driver_->simulated()) {}

MachineProbe::~MachineProbe() = default;

std::string MachineProbe::run() {
  options_.say("asking " + description_);
  machine_ = machine_facts(*driver_);
  if (!options_.name.empty()) machine_.name = options_.name;
  machine_.source = fmt::format("What vmart-lab machine probe found: {}.", description_);
  require_one_kind_of_link();
  source("granularity_bytes", SourceKind::driver, "cuMemGetAllocationGranularity, " + description_);
  ask_host_nodes();
  source("gpus", SourceKind::driver, "cuDeviceGetAttribute, cuDeviceTotalMem, " + description_);
  measure_calls();
  calibrate();
  set_rates();
  take_calls();
  return machine_text(machine_, sources_);
}

void MachineProbe::source(const std::string& path, SourceKind kind, const std::string& from) {
  sources_.push_back({path, {kind, from}});
}

std::string MachineProbe::measured_how() const {
  return fmt::format("vmart-lab machine probe, {:%Y-%m-%d}, {}", fmt::gmtime(std::time(nullptr)),
                     description_);
}

/// Called before measuring, to fail early.
void MachineProbe::require_one_kind_of_link() const {
  const PeerLink* one = nullptr;
  for (std::size_t from = 0; from < machine_.gpus.size(); ++from) {
    for (std::size_t to = 0; to < machine_.gpus.size(); ++to) {
      const PeerLink& link = machine_.peer_links[from][to];
      if (from == to || link.kind == LinkKind::none) continue;
      if (one == nullptr) one = &link;
      if (one->kind == link.kind && one->native_atomics == link.native_atomics) continue;
      throw Error(
          ErrorKind::unsupported, "machine probe",
          "GPUs are connected by links of several kinds, which a machine file cannot describe");
    }
  }
}

void MachineProbe::ask_host_nodes() {
  const MachineDescription* described = machine_of(*driver_);
  bool known = true;
  for (std::size_t node = 0; node < machine_.host_nodes.size(); ++node) {
    const std::uint64_t bytes = described != nullptr ? described->host_nodes.at(node).memory_bytes
                                                     : system_node_bytes(static_cast<int>(node));
    known = known && bytes >= MiB;
    machine_.host_nodes[node].memory_bytes = bytes >= MiB ? round_down(bytes, MiB) : 64 * GiB;
  }
  if (!known) {
    source("host_nodes", SourceKind::estimate, "a guess; the system does not report it");
  } else if (described != nullptr) {
    source("host_nodes", SourceKind::driver, description_);
  } else {
    source("host_nodes", SourceKind::driver, "MemTotal of the system's nodes");
  }
}

void MachineProbe::measure_calls() {
  calls_.deadline = driver_->clock().now() + calls_limit;
  OpenContexts contexts(*driver_);
  const bool fresh = !driver_->context_active(DeviceId{0});
  ContextHandle first{};
  options_.say("opening contexts");
  const double open_us = timed_us(driver_->clock(), [&] { first = contexts.open(DeviceId{0}); });
  if (fresh) {
    calls_.costs.open_context_us = open_us;
    calls_.took("open_context_us");
  }
  for (int device = 1; device < driver_->device_count(); ++device) contexts.open(DeviceId{device});
  ChunkProbe(*driver_, machine_.host_nodes.front().memory_bytes, options_.say).measure(calls_);
  options_.say("streams, kernels, copies");
  StreamProbe(*driver_, first).measure(calls_);
  for (const std::string& failure : calls_.failures) options_.say("not measured: " + failure);
}

void MachineProbe::calibrate() {
  options_.say("calibrating links");
  Settings settings = resolve_settings({});
  settings.devices.clear();  // Uses the whole machine, regardless of the environment.
  settings.capacity_bytes.clear();
  settings.policy.clear();
  settings.calibration = "off";
  for (std::string* text : {&settings.record, &settings.decisions, &settings.timeline})
    text->clear();
  settings.control = "off";
  Runtime runtime = runtime_of(std::make_unique<RuntimeParts>(std::move(driver_), settings));
  CalibrateOptions options;
  options.store = false;
  options.time_limit = calibration_limit;
  take_rates(runtime.calibrate(options));
}

void MachineProbe::add_rate(const Calibration& calibration, const std::string& path, Place from,
                            Place to) {
  const std::string route = fmt::format("copies {}->{}: ", to_string(from), to_string(to));
  const auto named = std::ranges::find_if(
      calibration.estimates, [&](const std::string& it) { return it.starts_with(route); });
  const double gb_s =
      calibration.costs.copy_rate(place_in(calibration, from), place_in(calibration, to)) / 1e9;
  Rates& rates = rates_[path];
  if (named == calibration.estimates.end()) {
    rates.gb_s.push_back(gb_s);
  } else {
    rates.estimated.push_back(gb_s);
    rates.reason = *named;
  }
}

void MachineProbe::take_rates(const Calibration& calibration) {
  both_ways_ = calibration.peers.both_ways;
  const auto entries = gpu_entries(machine_);
  for (std::size_t entry = 0; entry < entries.size(); ++entry) {
    const std::string local = fmt::format("gpus[{}].local_gb_s", entry);
    for (std::size_t n = 0; n < entries[entry].second; ++n) {
      const Place at = gpu(static_cast<int>(entries[entry].first + n));
      add_rate(calibration, local, at, at);
    }
  }
  for (std::size_t from = 0; from < machine_.gpus.size(); ++from) {
    const Place at = gpu(static_cast<int>(from));
    for (std::size_t to = 0; to < machine_.gpus.size(); ++to) {
      if (from == to || machine_.peer_links[from][to].kind == LinkKind::none) continue;
      add_rate(calibration, "peer_link.gb_s", at, gpu(static_cast<int>(to)));
    }
    for (const Place node : calibration.places) {
      if (node.kind != Place::Kind::host) continue;
      const bool own = machine_.gpus[from].host_node == node.ordinal;
      const std::string link = own ? "host_link" : "far_host_link";
      add_rate(calibration, link + ".to_gpu_gb_s", node, at);
      add_rate(calibration, link + ".from_gpu_gb_s", at, node);
    }
  }
}

/// The rate of the routes under one path, whose source it records. Returns `otherwise` if there are
/// none.
double MachineProbe::rate(const std::string& path, double otherwise) {
  const auto found = rates_.find(path);
  if (found == rates_.end()) {
    if (otherwise > 0) {
      source(path, SourceKind::estimate,
             fmt::format("of {}; the driver makes no host memory", costs_from));
    }
    return otherwise;
  }
  const Rates& rates = found->second;
  const bool measured = !rates.gb_s.empty();
  if (measured) {
    const std::size_t routes = rates.gb_s.size() + rates.estimated.size();
    source(path, SourceKind::measured,
           fmt::format("{}, the median of {} of {} routes", measured_how(), rates.gb_s.size(),
                       routes));
  } else {
    source(path, SourceKind::estimate, "not measured; " + rates.reason);
  }
  return std::max(rounded(median(measured ? rates.gb_s : rates.estimated)), 0.001);
}

/// The rate of a GPU in both directions; 0 if unknown or less than `peer_gb_s`, the rate in one.
double MachineProbe::both_ways(double peer_gb_s) {
  if (both_ways_.empty()) return 0;
  const double gb_s = rounded(median(both_ways_) / 1e9);
  if (gb_s < peer_gb_s) {
    options_.say(
        fmt::format("left out: kernels reach {} GB/s in both directions, and a copy {} in one",
                    gb_s, peer_gb_s));
    return 0;
  }
  source("peer_link.both_ways_gb_s", SourceKind::measured,
         measured_how() + ", all GPUs read in a ring");
  return gb_s;
}

void MachineProbe::set_rates() {
  // Taken before rates are set, which could split entries.
  const auto entries = gpu_entries(machine_);
  for (std::size_t entry = 0; entry < entries.size(); ++entry) {
    const double local = rate(fmt::format("gpus[{}].local_gb_s", entry), 0);
    for (std::size_t n = 0; n < entries[entry].second; ++n) {
      machine_.gpus[entries[entry].first + n].local_gb_s = local;
    }
  }
  const HostLink other = load_machine(costs_from).host_links.front().front();
  const double peer = rate("peer_link.gb_s", 0);
  const double both = both_ways(peer);
  const HostLink near{rate("host_link.to_gpu_gb_s", other.to_gpu_gb_s),
                      rate("host_link.from_gpu_gb_s", other.from_gpu_gb_s)};
  const HostLink far{rate("far_host_link.to_gpu_gb_s", 0), rate("far_host_link.from_gpu_gb_s", 0)};
  for (std::size_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
    for (PeerLink& link : machine_.peer_links[gpu]) {
      link.gb_s = peer;
      link.both_ways_gb_s = both;
    }
    const auto own = static_cast<std::size_t>(machine_.gpus[gpu].host_node);
    for (std::size_t node = 0; node < machine_.host_nodes.size(); ++node) {
      HostLink& link = machine_.host_links[gpu][node];
      // The driver has reported it, so it is kept.
      const bool native_atomics = link.native_atomics;
      link = node == own ? near : far;
      link.native_atomics = native_atomics;
    }
  }
}

void MachineProbe::take_calls() {
  round_costs(calls_.costs);
  machine_.costs = load_machine(costs_from).costs;
  source("costs", SourceKind::estimate, fmt::format("of {}; not measured here", costs_from));
  for (const std::string& key : calls_.keys) {
    copy_cost(key, calls_.costs, machine_.costs);
    source("costs." + key, SourceKind::measured, measured_how());
  }
}

}  // namespace vma
