#include "telemetry/known_starts.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace vma {
namespace {

// In one allocation. What a program lays out anew each time would else leave starts everywhere.
constexpr std::uint64_t bytes_per_start = 64 << 10;
constexpr std::uint64_t starts_min = 64, starts_max = 4096;

/// A start that no launch has shown for so long makes room for others.
constexpr std::chrono::seconds kept_unseen(2);

std::size_t most_in(std::uint64_t allocation_bytes) {
  return std::clamp(allocation_bytes / bytes_per_start, starts_min, starts_max);
}

}  // namespace

void KnownStarts::complete(std::span<LoggedUse> uses, TimePoint now) {
  open_.clear();
  bool learnt = false;
  for (LoggedUse& use : uses) {
    use.guessed = use.bytes == 0 || use.kind == UseKind::unknown;
    if (use.bytes == 0) {
      open_.push_back(&use);
      use.bytes = reach(use.address, now, learnt);
    }
    if (use.kind != UseKind::unknown) continue;
    use.kind = UseKind::read_write;
    use.passes /= 2;
  }
  if (!learnt) return;  // As nearly always, once a program repeats itself.
  for (LoggedUse* use : open_) use->bytes = reach(use->address, now, learnt);
}

std::uint64_t KnownStarts::reach(Address pointer, TimePoint now, bool& learnt) {
  const auto found = registry_.find(pointer);
  const auto allocation = found ? registry_.bounds(found->id) : std::nullopt;
  if (!allocation || !allocation->contains(pointer)) return 0;
  const std::uint64_t offset = pointer - allocation->begin, size = allocation->size_bytes;
  auto known = of_.find(allocation->begin);
  if (known == of_.end()) {
    // Nothing lies before the begin, so most allocations take no entry.
    if (offset == 0) return size;
    known = of_.emplace(allocation->begin, AllocationStarts{}).first;
  }
  AllocationStarts& starts = known->second;
  if (offset > 0) learnt |= starts.add(offset, size, now);
  return starts.reach(offset, size);
}

bool AllocationStarts::add(std::uint64_t offset, std::uint64_t allocation_bytes, TimePoint now) {
  const std::size_t most = most_in(allocation_bytes);
  const auto place = [&] { return std::ranges::lower_bound(list_, offset, {}, &Start::offset); };
  auto at = place();
  if (at != list_.end() && at->offset == offset) {
    at->seen = now;
    return false;
  }
  if (list_.size() >= most) {
    if (now - swept_ < kept_unseen) return false;  // Looking at all of them takes a while.
    swept_ = now;
    std::erase_if(list_, [&](const Start& start) { return now - start.seen >= kept_unseen; });
    if (list_.size() >= most) return false;
    at = place();
  }
  list_.insert(at, {offset, now});
  return true;
}

std::uint64_t AllocationStarts::reach(std::uint64_t offset,
                                      std::uint64_t allocation_bytes) const noexcept {
  const auto next = std::ranges::upper_bound(list_, offset, {}, &Start::offset);
  // It may lie behind the end, if another allocation began there whose free is not known yet.
  const std::uint64_t end = next != list_.end() ? next->offset : allocation_bytes;
  return std::min(end, allocation_bytes) - offset;
}

}  // namespace vma
