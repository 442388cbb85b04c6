#include "memory/clean_copies.hpp"

#include "base/check.hpp"

#include <exception>

namespace vma {

bool CleanCopies::put(Address begin, std::size_t slot, std::uint64_t epoch,
                      Chunk&& chunk) noexcept {
  VMART_CHECK(static_cast<bool>(chunk) && !chunk.busy(), "only an idle chunk is kept");
  const Place at = chunk.at();
  const std::uint64_t size_bytes = chunk.size_bytes();
  const MutexLock lock(mutex_);
  try {
    const Key key{begin, slot};
    const std::uint64_t age = ++last_age_;
    const auto oldest = ages_.emplace(std::pair{at, age}, key).first;
    try {
      const auto [copy, added] = copies_.try_emplace(key);
      VMART_CHECK(added, "a slot has one clean copy");
      copy->second = {std::move(chunk), epoch, age};
    } catch (...) {
      ages_.erase(oldest);
      throw;
    }
  } catch (const std::exception&) {
    return false;
  }
  ledger_.shift(at, size_bytes, Ledger::Use::allocated, Ledger::Use::copies);
  ++count_;
  return true;
}

CleanCopies::Copies::const_iterator CleanCopies::find(Address begin, std::size_t slot, Place at,
                                                      std::uint64_t epoch) const {
  const auto copy = copies_.find({begin, slot});
  const bool clean = copy != copies_.end() && copy->second.epoch == epoch;
  return clean && copy->second.chunk.at() == at ? copy : copies_.end();
}

Chunk CleanCopies::take(Address begin, std::size_t slot, Place at, std::uint64_t epoch) noexcept {
  if (none()) return Chunk();
  const MutexLock lock(mutex_);
  const auto copy = find(begin, slot, at, epoch);
  return copy == copies_.end() ? Chunk() : remove(copy);
}

bool CleanCopies::has(Address begin, std::size_t slot, Place at,
                      std::uint64_t epoch) const noexcept {
  if (none()) return false;
  const MutexLock lock(mutex_);
  return find(begin, slot, at, epoch) != copies_.end();
}

Chunk CleanCopies::drop(Address begin, std::size_t slot) noexcept {
  if (none()) return Chunk();
  const MutexLock lock(mutex_);
  const auto copy = copies_.find({begin, slot});
  if (copy == copies_.end()) return Chunk();
  ++counts_.dropped;
  return remove(copy);
}

Chunk CleanCopies::drop_any(Address begin) noexcept {
  if (none()) return Chunk();
  const MutexLock lock(mutex_);
  const auto copy = copies_.lower_bound({begin, 0});
  if (copy == copies_.end() || copy->first.first != begin) return Chunk();
  ++counts_.dropped;
  return remove(copy);
}

Chunk CleanCopies::drop_oldest(Place at) noexcept {
  if (none()) return Chunk();
  const MutexLock lock(mutex_);
  const auto age = ages_.lower_bound({at, 0});
  return age == ages_.end() || age->first.first != at ? Chunk() : drop(age);
}

Chunk CleanCopies::drop_oldest(Place at, std::uint64_t size_bytes) noexcept {
  if (none()) return Chunk();
  const MutexLock lock(mutex_);
  for (auto age = ages_.lower_bound({at, 0}); age != ages_.end() && age->first.first == at; ++age) {
    if (copies_.at(age->second).chunk.size_bytes() == size_bytes) return drop(age);
  }
  return Chunk();
}

Chunk CleanCopies::drop(Ages::const_iterator age) noexcept {
  ++counts_.dropped;
  return remove(copies_.find(age->second));
}

Chunk CleanCopies::remove(Copies::const_iterator copy) noexcept {
  auto node = copies_.extract(copy);
  Chunk chunk = std::move(node.mapped().chunk);
  ages_.erase({chunk.at(), node.mapped().age});
  ledger_.shift(chunk.at(), chunk.size_bytes(), Ledger::Use::copies, Ledger::Use::allocated);
  --count_;
  return chunk;
}

void CleanCopies::note_kept() noexcept {
  const MutexLock lock(mutex_);
  ++counts_.kept;
}

void CleanCopies::note_dropped() noexcept {
  const MutexLock lock(mutex_);
  ++counts_.dropped;
}

void CleanCopies::note_used(std::uint64_t size_bytes) noexcept {
  const MutexLock lock(mutex_);
  ++counts_.used;
  counts_.used_bytes += size_bytes;
}

std::uint64_t CleanCopies::bytes(Place at) const {
  std::uint64_t bytes = 0;
  if (none()) return bytes;
  const MutexLock lock(mutex_);
  for (auto age = ages_.lower_bound({at, 0}); age != ages_.end() && age->first.first == at; ++age) {
    bytes += copies_.at(age->second).chunk.size_bytes();
  }
  return bytes;
}

CleanCopies::Counts CleanCopies::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace vma
