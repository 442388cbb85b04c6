#include "machine/topology.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace vma {
namespace {

std::vector<DeviceId> choose_devices(Driver& driver, std::span<const int> asked) {
  const int count = driver.device_count();
  if (count == 0) throw Error(ErrorKind::no_driver, "vma::Runtime", "the driver shows no GPU");
  std::vector<DeviceId> chosen;
  if (asked.empty()) {
    for (int device = 0; device < count; ++device) chosen.push_back(DeviceId{device});
    return chosen;
  }
  for (const int device : asked) {
    if (device < 0 || device >= count) {
      throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                  fmt::format("devices names GPU {}; the machine has {}", device, count));
    }
    if (std::ranges::find(chosen, DeviceId{device}) != chosen.end()) {
      throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                  fmt::format("devices lists GPU {} twice", device));
    }
    chosen.push_back(DeviceId{device});
  }
  return chosen;
}

}  // namespace

std::string_view to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::same: return "same";
    case LinkKind::nvlink: return "nvlink";
    case LinkKind::pcie: return "pcie";
    case LinkKind::none: return "none";
  }
  return "";
}

std::optional<LinkKind> parse_link_kind(std::string_view text) {
  for (const LinkKind kind : {LinkKind::same, LinkKind::nvlink, LinkKind::pcie, LinkKind::none}) {
    if (to_string(kind) == text) return kind;
  }
  return std::nullopt;
}

Topology Topology::discover(Driver& driver, std::span<const int> devices) {
  Topology topology;
  topology.devices_ = choose_devices(driver, devices);
  for (const DeviceId device : topology.devices_) {
    const DeviceInfo info = driver.device_info(device);
    if (!info.vmm) {
      throw Error(
          ErrorKind::unsupported, "vma::Runtime",
          fmt::format("GPU {} ({}) has no virtual memory management", index(device), info.name));
    }
    topology.infos_.emplace(device, info);
    topology.places_.push_back(gpu(index(device)));
  }
  for (int node = 0; node < driver.host_node_count(); ++node)
    topology.places_.push_back(host(node));
  for (const DeviceId from : topology.devices_) {
    for (const DeviceId to : topology.devices_) {
      topology.peers_[{from, to}] = from == to || driver.can_access_peer(from, to);
      topology.links_[{from, to}] = driver.link_info(from, to);
    }
  }
  for (const Place at : topology.places_) {
    topology.granularity_ = std::max(topology.granularity_, driver.granularity(at));
    std::vector<Accessor>& readers = topology.readers_[at];
    for (const DeviceId device : topology.devices_) {
      if (topology.reaches(device, at)) readers.push_back({gpu(index(device)), Access::read_write});
    }
  }
  return topology;
}

bool Topology::has(Place at) const noexcept {
  return std::ranges::find(places_, at) != places_.end();
}

void Topology::require(Place at, const char* call) const {
  if (has(at)) return;
  std::string known;
  for (const Place place : places_) known += (known.empty() ? "" : " ") + to_string(place);
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("{} is not a place of this runtime; it has {}", to_string(at), known));
}

std::uint64_t Topology::memory_bytes(Place at) const {
  if (at.kind == Place::Kind::host) return 0;
  return info(DeviceId{at.ordinal}).memory_bytes;
}

Place Topology::nearest_host(DeviceId device) const {
  const Place nearest = host(info(device).host_node);
  return has(nearest) ? nearest : host(0);
}

std::vector<std::vector<LinkKind>> Topology::link_kinds() const {
  std::vector<std::vector<LinkKind>> kinds;
  for (const DeviceId from : devices_) {
    std::vector<LinkKind>& row = kinds.emplace_back();
    for (const DeviceId to : devices_)
      row.push_back(reaches(from, gpu(index(to))) ? link(from, to).kind : LinkKind::none);
  }
  return kinds;
}

bool Topology::atomics_work(std::span<const DeviceId> devices, Place at) const {
  return devices.size() < 2 || std::ranges::all_of(devices, [&](DeviceId device) {
           if (at.kind == Place::Kind::host) return info(device).host_atomics;
           const DeviceId owner{at.ordinal};
           return device == owner || link(device, owner).native_atomics;
         });
}

bool Topology::reaches(DeviceId from, Place at) const {
  if (at.kind == Place::Kind::host) return true;  // Host memory needs no peer capability.
  const auto peer = peers_.find({from, DeviceId{at.ordinal}});
  return peer != peers_.end() && peer->second;
}

}  // namespace vma
