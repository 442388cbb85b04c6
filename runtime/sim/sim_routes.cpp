#include "sim/sim_routes.hpp"

#include <algorithm>

namespace vma {

SimRoutes::SimRoutes(const MachineDescription& machine, const CostModel& costs)
    : machine_(machine), costs_(costs), gpus_(machine.gpus.size()) {}

std::vector<TimePoint*> SimRoutes::links(Place from, Place to) {
  const auto source = static_cast<std::size_t>(from.ordinal);
  const auto target = static_cast<std::size_t>(to.ordinal);
  const bool from_host = from.kind == Place::Kind::host, to_host = to.kind == Place::Kind::host;
  if (from_host && to_host) return {};
  if (from_host) return {&gpus_.at(target).busy_until[host_in]};
  if (to_host) return {&gpus_.at(source).busy_until[host_out]};
  if (source == target) return {&gpus_.at(source).busy_until[local]};
  // Peers over PCIe share the links to the host.
  const bool pcie = machine_.peer_links.at(source).at(target).kind != LinkKind::nvlink;
  return {&gpus_.at(source).busy_until[pcie ? host_out : peer_out],
          &gpus_.at(target).busy_until[pcie ? host_in : peer_in]};
}

SimRoutes::Span SimRoutes::occupy(Place from, Place to, std::uint64_t size_bytes,
                                  TimePoint earliest) {
  const TimePoint duration =
      costs_.copy(from, to, size_bytes) - from_microseconds(costs_.parameters().copy_latency_us);
  const MutexLock lock(mutex_);
  TimePoint begin = earliest;
  const std::vector<TimePoint*> taken = links(from, to);
  for (const TimePoint* link : taken) begin = std::max(begin, *link);
  for (TimePoint* link : taken) *link = begin + duration;
  return {begin, begin + duration};
}

}  // namespace vma
