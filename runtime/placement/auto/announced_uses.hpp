#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace vma::inline v1 {

/// Chunks whose announced use is too far away to act on, and when each is to be considered again.
/// The first 65536: the next hint or use of another one is considered anyway.
class AnnouncedUses {
 public:
  void remember(ChunkId chunk, Time due) {
    forget(chunk);
    if (due_.size() >= most) return;
    due_.emplace(due, chunk);
    due_of_.emplace(chunk, due);
  }
  void forget(ChunkId chunk) {
    const auto found = due_of_.find(chunk);
    if (found == due_of_.end()) return;
    due_.erase({found->second, chunk});
    due_of_.erase(found);
  }
  /// Forgets and returns one that is due, the earliest first.
  std::optional<ChunkId> take_due(Time now) {
    if (due_.empty() || due_.begin()->first > now) return std::nullopt;
    const ChunkId chunk = due_.begin()->second;
    forget(chunk);
    return chunk;
  }

 private:
  static constexpr std::size_t most = 65536;
  std::set<std::pair<Time, ChunkId>> due_;
  std::map<ChunkId, Time> due_of_;
};

}  // namespace vma::inline v1
