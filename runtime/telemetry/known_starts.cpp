#include "telemetry/known_starts.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vma {
namespace {

// In one allocation. What a program lays out anew each time would else leave starts everywhere.
constexpr std::uint64_t bytes_per_start = 64 << 10;
constexpr std::uint64_t starts_min = 64, starts_max = 4096;

/// A start that no launch has shown for so long makes room for others.
constexpr std::chrono::seconds kept_unseen(2);

}  // namespace

std::size_t KnownStarts::most_in(const Registry::Bounds& allocation) noexcept {
  return std::clamp(allocation.size_bytes / bytes_per_start, starts_min, starts_max);
}

Registry::Bounds KnownStarts::around(Address address) const noexcept {
  const auto found = registry_.find(address);
  const auto bounds = found ? registry_.bounds(found->id) : std::nullopt;
  return bounds && bounds->contains(address) ? *bounds : Registry::Bounds{};
}

void KnownStarts::complete(std::span<LoggedUse> uses, TimePoint now) {
  // First all of them: a launch may show where what an earlier one used ends.
  for (const LoggedUse& use : uses) {
    if (use.bytes == 0) learn(use.address, now);
  }
  for (LoggedUse& use : uses) {
    use.guessed = use.bytes == 0 || use.kind == UseKind::unknown;
    if (use.bytes == 0) use.bytes = reach(use.address);
    if (use.kind != UseKind::unknown) continue;
    use.kind = UseKind::read_write;
    use.passes /= 2;
  }
}

void KnownStarts::learn(Address pointer, TimePoint now) {
  const Registry::Bounds allocation = around(pointer);
  // Nothing lies before the begin, so most allocations take no entry.
  if (allocation.size_bytes == 0 || pointer == allocation.begin) return;
  of_[allocation.begin].add(pointer - allocation.begin, most_in(allocation), now);
}

void KnownStarts::Starts::add(std::uint64_t offset, std::size_t max, TimePoint now) {
  const auto place = [&] { return std::ranges::lower_bound(list, offset, {}, &Start::offset); };
  auto at = place();
  if (at != list.end() && at->offset == offset) {
    at->seen = now;
    return;
  }
  if (list.size() >= max) {
    if (now - swept < kept_unseen) return;  // Looking at all of them takes a while.
    swept = now;
    std::erase_if(list, [&](const Start& start) { return now - start.seen >= kept_unseen; });
    if (list.size() >= max) return;
    at = place();
  }
  list.insert(at, {offset, now});
}

std::uint64_t KnownStarts::reach(Address pointer) const noexcept {
  const Registry::Bounds allocation = around(pointer);
  if (allocation.size_bytes == 0) return 0;
  const std::uint64_t offset = pointer - allocation.begin;
  const auto known = of_.find(allocation.begin);
  if (known == of_.end()) return allocation.size_bytes - offset;
  const std::vector<Start>& starts = known->second.list;
  const auto next = std::ranges::upper_bound(starts, offset, {}, &Start::offset);
  // It may lie behind the end, if a larger allocation began there whose free is not known yet.
  const std::uint64_t end = next != starts.end() ? next->offset : allocation.size_bytes;
  return std::min(end, allocation.size_bytes) - offset;
}

}  // namespace vma
