#include "migrate/migration/reach.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vma {

Reach::Reach(const Topology& topology, const AttachedStreams& attached)
    : topology_(topology), attached_(attached) {
  limited_ = std::ranges::any_of(topology.places(), [&](Place at) {
    return topology.readers(at).size() < topology.devices().size();
  });
  limits_atomics_ = std::ranges::any_of(
      topology.places(), [&](Place at) { return !topology.atomics_work(users(at), at); });
}

bool Reach::limits(const Allocation& allocation) const noexcept {
  return limited_ || (limits_atomics_ && allocation.shared_atomics);
}

std::vector<DeviceId> Reach::users(Place at) const {
  std::vector<DeviceId> users;
  for (const Accessor& reader : topology_.readers(at))
    users.push_back(DeviceId{reader.who.ordinal});
  return users;
}

std::vector<DeviceId> Reach::users(const Allocation& allocation, std::size_t slot) const {
  if (!allocation.readers.empty()) return allocation.readers;
  const Place wanted = allocation.wanted(slot);
  if (wanted.kind == Place::Kind::host) {
    const std::set<DeviceId> attached = attached_.devices(allocation.begin());
    if (!attached.empty()) return {attached.begin(), attached.end()};
  }
  return users(wanted);
}

bool Reach::suits(std::span<const DeviceId> users, Place at, bool shared_atomics) const {
  return std::ranges::all_of(users, [&](DeviceId user) { return topology_.reaches(user, at); }) &&
         (!shared_atomics || topology_.atomics_work(users, at));
}

bool Reach::allows(const Allocation& allocation, std::size_t slot, Place to) const {
  return !limits(allocation) || suits(users(allocation, slot), to, allocation.shared_atomics);
}

void Reach::require(const Allocation& allocation, SlotRange range, Place to,
                    const char* call) const {
  for (std::size_t slot = range.first; limited_ && slot < range.end; ++slot) {
    if (allocation.place(slot) == to) continue;
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

void Reach::require_atomics(const Allocation& allocation, SlotRange range, Place to,
                            const char* call) const {
  if (!limits_atomics_ || !allocation.shared_atomics) return;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    if (allocation.place(slot) != to) require_atomics(users(allocation, slot), to, call);
  }
}

void Reach::require_atomics(std::span<const DeviceId> readers, Place at, const char* call) const {
  const std::vector<DeviceId> all = users(at);
  if (topology_.atomics_work(readers.empty() ? all : readers, at)) return;
  throw Error(ErrorKind::unsupported, call,
              fmt::format("atomics of several GPUs on memory at {} lose updates on this machine, "
                          "and the allocation was made with shared_atomics. Keep it on a GPU, or "
                          "allocate it without shared_atomics",
                          to_string(at)));
}

}  // namespace vma
