#include "tools/doctor.hpp"

#include "base/units.hpp"
#include "machine/link_kind.hpp"
#include "service/runtime_parts.hpp"
#include "service/settings.hpp"
#include "tools/link_speeds.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace vma {
namespace {

using FreeBytes = std::map<DeviceId, std::uint64_t>;

FreeBytes free_now(Driver& driver, const Topology& topology) {
  FreeBytes free;
  for (const DeviceId device : topology.devices()) free[device] = driver.free_bytes(device);
  return free;
}

double mib_less(const FreeBytes& before, const FreeBytes& after, DeviceId device) {
  return (static_cast<double>(before.at(device)) - static_cast<double>(after.at(device))) /
         static_cast<double>(MiB);
}

void print_driver(Driver& driver) {
  fmt::print("driver          {}\n", driver.description());
  fmt::print("floor           driver 550 (CUDA 12.4): {}\n",
             driver.simulated() ? "does not apply, this machine is simulated" : "met");
  fmt::print("context hold    {}\n", driver.has_context_hold() ? "available" : "not available");
}

void print_devices(const Topology& topology) {
  fmt::print("\n{:<8} {:<20} {:>9} {:>4} {:>4} {:>7} {:>7} {:>6}  {}\n", "GPU", "name", "MiB",
             "SMs", "cc", "engines", "queues", "node", "UUID");
  for (const DeviceId device : topology.devices()) {
    const DeviceInfo& info = topology.info(device);
    fmt::print("{:<8} {:<20} {:>9} {:>4} {:>4} {:>7} {:>7} {:>6}  {}\n",
               to_string(gpu(index(device))), info.name, info.memory_bytes / MiB,
               info.multiprocessors, info.compute_capability, info.copy_engines, info.max_queues,
               info.host_node, info.uuid);
  }
  std::string nodes;
  for (const Location at : topology.locations()) {
    if (at.kind == Location::Kind::host) nodes += " " + to_string(at);
  }
  fmt::print("host nodes     {}\n", nodes.empty() ? " none" : nodes);
}

template <typename Cell>
void print_matrix(const char* title, const std::vector<Location>& locations, Cell&& cell) {
  fmt::print("\n{:<14}", title);
  for (const Location to : locations) fmt::print(" {:>8}", to_string(to));
  fmt::print("\n");
  for (const Location from : locations) {
    fmt::print("{:<14}", to_string(from));
    for (const Location to : locations) fmt::print(" {:>8}", cell(from, to));
    fmt::print("\n");
  }
}

void print_peers(const Topology& topology) {
  std::vector<Location> gpus;
  for (const DeviceId device : topology.devices()) gpus.push_back(gpu(index(device)));
  print_matrix("reaches", gpus, [&](Location from, Location to) {
    const LinkKind kind = topology.link(DeviceId{from.ordinal}, DeviceId{to.ordinal}).kind;
    return kind == LinkKind::same ? "-" : to_string(kind);
  });
}

void print_speeds(Runtime::Parts& parts, std::uint64_t size_bytes) {
  const auto speeds = measure_links(parts, size_bytes);
  print_matrix(
      "GB/s from, to", parts.machinery->topology.locations(), [&](Location from, Location to) {
        const auto speed = speeds.find({from, to});
        return speed == speeds.end() ? std::string("-") : fmt::format("{:.1f}", speed->second);
      });
  fmt::print("(one copy of {} MiB, the best of a few{})\n", size_bytes / MiB,
             parts.driver->simulated() ? ", in simulated time" : "");
}

/// What works less well here than it could, and why.
std::vector<std::string> what_is_off(Driver& driver, const Topology& topology) {
  std::vector<std::string> off;
  if (!driver.has_context_hold()) {
    off.push_back(
        "migrate() can stop nothing: the driver has no cuCtxRecordEvent (CUDA 12.5 has); it "
        "works with MigrateOptions::nothing_runs");
  }
  const bool has_host = topology.locations().back().kind == Location::Kind::host;
  if (!has_host) {
    off.push_back(
        "the host tier: the driver gives no host memory by NUMA node (a container may need "
        "--cap-add SYS_NICE)");
  }
  for (const DeviceId from : topology.devices()) {
    const DeviceInfo& info = topology.info(from);
    if (info.mig)
      off.push_back(fmt::format("gpu({}) is a MIG slice: it has no peers", index(from)));
    if (info.max_queues == 1) {
      off.push_back(
          fmt::format("gpu({}) has one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS): streams "
                      "wait for each other",
                      index(from)));
    }
    for (const DeviceId to : topology.devices()) {
      if (topology.reaches(from, gpu(index(to)))) continue;
      off.push_back(
          fmt::format("kernels on gpu({}) cannot use memory at gpu({}): the driver reports no "
                      "peer access",
                      index(from), index(to)));
    }
  }
  return off;
}

/// A primary context on every GPU, so that free memory can be asked for.
class PrimaryContexts {
 public:
  PrimaryContexts(Driver& driver, const Topology& topology) : driver_(driver) {
    for (const DeviceId device : topology.devices()) {
      driver_.retain_primary(device);
      retained_.push_back(device);
    }
  }
  ~PrimaryContexts() {
    for (const DeviceId device : retained_) {
      try {
        driver_.release_primary(device);
      } catch (const Error& error) {
        fmt::print(stderr, "vmart: {}\n", error.what());
      }
    }
  }
  PrimaryContexts(const PrimaryContexts&) = delete;
  PrimaryContexts& operator=(const PrimaryContexts&) = delete;

 private:
  Driver& driver_;
  std::vector<DeviceId> retained_;
};

/// Opens a runtime, times its copies, and prints what HBM each took.
void print_runtime(std::unique_ptr<Driver> opened, const Settings& settings,
                   const Topology& topology, std::uint64_t copy_bytes) {
  Driver& driver = *opened;
  auto contexts = std::make_unique<PrimaryContexts>(driver, topology);
  const FreeBytes before = free_now(driver, topology);
  Runtime::Parts parts(std::move(opened), settings);
  const FreeBytes idle = free_now(driver, topology);
  if (copy_bytes > 0) print_speeds(parts, copy_bytes);
  for (const Location at : topology.locations()) parts.machinery->memory.trim(at);
  const FreeBytes copied = free_now(driver, topology);
  fmt::print("\n{:<14} {:>14} {:>20}\n", "MiB of HBM", "idle runtime",
             copy_bytes > 0 ? "with copy contexts" : "");
  for (const DeviceId device : topology.devices()) {
    fmt::print("{:<14} {:>14.0f} {:>20}\n", to_string(gpu(index(device))),
               mib_less(before, idle, device),
               copy_bytes > 0 ? fmt::format("{:.0f}", mib_less(before, copied, device)) : "");
  }
  fmt::print("(besides the primary context, which the program's own use of CUDA makes)\n");
  contexts.reset();  // Before the driver, which goes with the parts.
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.driver = options.driver;
  const Settings settings = settle(runtime_options);
  std::unique_ptr<Driver> driver = open_driver(settings.driver);
  const Topology topology = Topology::discover(*driver, settings.devices);
  print_driver(*driver);
  print_devices(topology);
  print_peers(topology);
  const std::vector<std::string> off = what_is_off(*driver, topology);
  print_runtime(std::move(driver), settings, topology,
                static_cast<std::uint64_t>(options.copy_mib) * MiB);
  fmt::print("\noff             {}\n", off.empty() ? "nothing" : "");
  for (const std::string& line : off) fmt::print("  {}\n", line);
  return 0;
}

}  // namespace vma
