#include "lab/replay/launch_uses.hpp"

#include <algorithm>

namespace vma {

/// Some memory hides behind pointers in memory, such as tables of blocks: always the same objects.
bool LaunchUses::is_unseen(std::uint64_t number) const noexcept {
  const std::uint64_t mixed = (number + 1) * 0x9E3779B97F4A7C15u;
  return static_cast<double>(mixed >> 11) < options_.unseen * 0x1p53;
}

void LaunchUses::launch(ReplayMemory::Index object, std::uint64_t offset, PlaceId device,
                        double launches) {
  const std::uint64_t number = memory_.object(object).number;
  if (is_unseen(number)) return;
  if (options_.told_uses == ToldUses::base_pointers) offset = 0;
  launches_.push_back({object, number, offset, device, launches});
}

void LaunchUses::forget(std::uint64_t number) noexcept {
  starts_.erase(number);
  std::erase_if(launches_, [&](const Launch& launch) { return launch.number == number; });
}

void LaunchUses::tell(Time now) {
  uses_.clear();
  claims_.clear();
  for (const Launch& launch : launches_) {  // All starts count for all of these launches.
    const std::uint64_t bytes = memory_.object(launch.object).bytes;
    if (launch.offset > 0 && launch.offset < bytes)
      starts_[launch.number].add(launch.offset, bytes, now);
  }
  for (const Launch& launch : launches_) split(launch);
  launches_.clear();
  const std::span<const double> kept = limit_.fit(claims_, scheduler_.costs(), now);
  for (const Use& use : uses_) {
    const double half = kept[index(use.device)] * use.bytes / 2;
    scheduler_.use(use.chunk, use.device, half, half);
  }
}

/// Adds the uses of its chunks.
void LaunchUses::split(const Launch& launch) {
  const ReplayObjects::Object& object = memory_.object(launch.object);
  if (!object.placed || object.chunks == 0 || launch.offset >= object.bytes) return;
  const auto known = starts_.find(launch.number);
  const std::uint64_t end =
      launch.offset + (known == starts_.end() ? object.bytes - launch.offset
                                              : known->second.reach(launch.offset, object.bytes));
  for (std::uint64_t slot = launch.offset / object.chunk_bytes; slot * object.chunk_bytes < end;
       ++slot) {
    const std::uint64_t begin = slot * object.chunk_bytes;
    const std::uint64_t bytes =
        std::min(begin + object.chunk_bytes, end) - std::max(begin, launch.offset);
    const ChunkId chunk{static_cast<std::uint32_t>(index(object.first) + slot)};
    uses_.push_back({chunk, launch.device, static_cast<double>(bytes) * launch.launches});
    claims_.push_back({launch.device, scheduler_.snapshot().chunk(chunk).at, 0,
                       uses_.back().bytes / 2, uses_.back().bytes / 2});
  }
}

}  // namespace vma
