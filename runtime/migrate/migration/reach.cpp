#include "migrate/migration/reach.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {

Reach::Reach(const Topology& topology, const AttachedStreams& attached)
    : topology_(topology), attached_(attached) {
  limited_ = std::ranges::any_of(topology.locations(), [&](Location at) {
    return topology.readers(at).size() < topology.devices().size();
  });
}

std::vector<DeviceId> Reach::users(Location gpu) const {
  std::vector<DeviceId> users;
  for (const Accessor& reader : topology_.readers(gpu))
    users.push_back(DeviceId{reader.who.ordinal});
  return users;
}

std::vector<DeviceId> Reach::users(const Allocation& allocation, std::size_t slot) const {
  if (!allocation.readers.empty()) return allocation.readers;
  const Location wanted = allocation.wanted(slot);
  if (wanted.kind == Location::Kind::host) {
    std::vector<DeviceId> attached = attached_.devices(allocation.begin());
    if (!attached.empty()) return attached;
  }
  return users(wanted);
}

bool Reach::all_reach(std::span<const DeviceId> users, Location at) const {
  return std::ranges::all_of(users, [&](DeviceId user) { return topology_.reaches(user, at); });
}

bool Reach::allows(const Allocation& allocation, std::size_t slot, Location to) const {
  return !limited_ || all_reach(users(allocation, slot), to);
}

void Reach::require(const Allocation& allocation, SlotRange range, Location to,
                    const char* call) const {
  for (std::size_t slot = range.first; limited_ && slot < range.end; ++slot) {
    if (allocation.home(slot) == to) continue;
    for (const DeviceId user : users(allocation, slot)) {
      if (topology_.reaches(user, to)) continue;
      throw Error(ErrorKind::unreachable, call,
                  fmt::format("gpu({}) may use the chunk at offset {} of the allocation at {:#x} "
                              "but cannot access {}. To move it there anyway, call migrate",
                              index(user), slot * allocation.geometry().chunk_bytes,
                              to_integer(allocation.begin()), to_string(to)));
    }
  }
}

}  // namespace vma
