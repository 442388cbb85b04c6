#include "placement/planning/moves_so_far.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace vma {

void MoveHistory::moved(ChunkId chunk, Time now, const PlannerLimits& limits) noexcept try {
  if (limits.thrash_moves == 0) return;
  if (chunks_.size() >= dropped_at_) drop_old(now, limits);
  std::deque<Time> first;
  first.push_back(now);  // Before the entry, which is never without one.
  Past& past = chunks_[chunk];
  if (past.moves.empty()) {
    past.moves = std::move(first);
  } else {
    past.moves.push_back(now);
  }
  while (past.moves.front() < now - limits.thrash_window) past.moves.pop_front();
  if (past.moves.size() >= limits.thrash_moves) {
    past.held_until = now + limits.thrash_pin;
  }
  // Bounded, whatever the limits become later.
  while (past.moves.size() > limits.thrash_moves) past.moves.pop_front();
} catch (const std::bad_alloc&) {  // One move is not counted.
}

Time MoveHistory::held_until(ChunkId chunk) const {
  const auto found = chunks_.find(chunk);
  return found == chunks_.end() ? Time{0} : found->second.held_until;
}

std::uint32_t MoveHistory::recent_moves(ChunkId chunk, Time now,
                                        const PlannerLimits& limits) const {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return 0;
  return static_cast<std::uint32_t>(std::ranges::count_if(
      found->second.moves, [&](Time moved) { return moved >= now - limits.thrash_window; }));
}

void MoveHistory::drop_old(Time now, const PlannerLimits& limits) {
  std::erase_if(chunks_, [&](const auto& entry) {
    const Past& past = entry.second;
    return past.moves.back() < now - limits.thrash_window && past.held_until <= now;
  });
  dropped_at_ = std::max<std::size_t>(64, chunks_.size() * 2);
}

void MovesUnderWay::reserve(PlaceId at, std::int64_t bytes) {
  if (reserved_.size() <= index(at)) reserved_.resize(index(at) + 1);
  reserved_[index(at)] += bytes;
}

std::int64_t MovesUnderWay::reserved(PlaceId at) const {
  return index(at) < reserved_.size() ? reserved_[index(at)] : 0;
}

void MovesUnderWay::accept(const AcceptedMove& move, std::int64_t reserved,
                           std::vector<RoomClaim> claims) {
  Entry entry;
  entry.chunk = move.chunk;
  entry.from = move.from;
  entry.to = move.to;
  entry.bytes = move.bytes;
  entry.leg = move.leg;
  entry.claims = std::move(claims);
  entry.waits_for = move.after;
  reserve(move.to, 0);  // Creates the element, so that nothing throws once the books have changed.
  const auto [at, fresh] = moves_.emplace(move.number, std::move(entry));
  VMART_CHECK(fresh, "a number is used once");
  Entry& accepted = at->second;
  try {
    moves_of_.emplace(move.chunk, move.number);
    for (const MoveNumber number : move.after) {
      const auto found = moves_.find(number);
      VMART_CHECK(found != moves_.end(), "a move waits only for moves accepted before it");
      found->second.dependents.push_back(move.number);
    }
  } catch (...) {
    withdraw(move.number);
    throw;
  }
  accepted.reserved = reserved;
  reserve(move.to, reserved);
}

void MovesUnderWay::withdraw(MoveNumber number) noexcept {
  if (moves_.contains(number)) remove(number);
}

bool MovesUnderWay::may_start(MoveNumber number) const {
  const auto found = moves_.find(number);
  return found != moves_.end() && !found->second.started && found->second.waits_for.empty();
}

void MovesUnderWay::started(MoveNumber number) {
  VMART_CHECK(may_start(number), "a move starts once, after those that it waits for");
  Entry& entry = moves_.at(number);
  VMART_CHECK(entry.reserved == static_cast<std::int64_t>(entry.bytes),
              "a move has all its room when nothing is left to wait for");
  entry.started = true;
  reserve(entry.to, -entry.reserved);
  entry.reserved = 0;
}

MovesUnderWay::Entry MovesUnderWay::remove(MoveNumber number) {
  auto node = moves_.extract(number);
  VMART_CHECK(!node.empty(), "only a move in progress ends");
  Entry entry = std::move(node.mapped());
  reserve(entry.to, -entry.reserved);
  const auto [first, last] = moves_of_.equal_range(entry.chunk);
  for (auto i = first; i != last; ++i) {
    if (i->second != number) continue;
    moves_of_.erase(i);
    break;
  }
  return entry;
}

void MovesUnderWay::ended(MoveNumber number, bool moved, Ended& over) noexcept {
  const std::size_t first = over.size();
  over.emplace_back(number, remove(number));
  if (moved) {
    for (const MoveNumber waiting : over[first].second.dependents) {
      const auto found = moves_.find(waiting);
      if (found == moves_.end()) continue;  // Dropped because another one failed.
      Entry& entry = found->second;
      std::erase(entry.waits_for, number);
      for (const RoomClaim& claim : entry.claims) {
        if (claim.from != number) continue;
        entry.reserved += static_cast<std::int64_t>(claim.bytes);
        reserve(entry.to, static_cast<std::int64_t>(claim.bytes));
      }
      std::erase_if(entry.claims, [&](const RoomClaim& claim) { return claim.from == number; });
    }
    return;
  }
  for (std::size_t i = first; i < over.size(); ++i) {  // It grows: dropped moves drop others.
    for (const MoveNumber waiting : over[i].second.dependents) {  // Its chunk stays where it is.
      if (moves_.contains(waiting)) over.emplace_back(waiting, remove(waiting));
    }
  }
}

std::vector<MoveNumber> MovesUnderWay::moves_of(ChunkId chunk) const {
  std::vector<MoveNumber> numbers;
  const auto [first, last] = moves_of_.equal_range(chunk);
  for (auto i = first; i != last; ++i) numbers.push_back(i->second);
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace vma
