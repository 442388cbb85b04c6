#pragma once

#include "base/ids.hpp"
#include "base/mutex.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace vma {

/// What is known to have happened: for each stream, the number of its latest finished piece of
/// work.
class VectorClock {
 public:
  void join(const VectorClock& other) {
    for (const auto& [stream, work] : other.works_) {
      std::uint64_t& mine = works_[stream];
      mine = std::max(mine, work);
    }
  }
  void advance(std::uint64_t stream, std::uint64_t work) { works_[stream] = work; }
  bool knows(std::uint64_t stream, std::uint64_t work) const {
    const auto found = works_.find(stream);
    return found != works_.end() && found->second >= work;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> works_;
};

/// Two unordered accesses to the same bytes of a chunk, at least one of them a write.
struct Race {
  std::uint64_t chunk = 0;
  std::uint64_t begin = 0, end = 0;  ///< Bytes of the chunk that both accessed.
  std::string earlier, later;        ///< Such as "write by stream 3, work 12".
};

enum class Touch { read, write, atomic };

/// Finds accesses of streams that no event, wait, word or host thread orders.
///
/// Keyed by chunk and byte range, so that two mappings of a chunk count as the same bytes. All host
/// threads count as one thread, which has seen every word that a stream wrote. So any order that a
/// program may have created by its own means is assumed to exist: a race may be missed, but none is
/// reported falsely. Does not see accesses by the CPU through a pointer, nor reads of the kernels
/// that `reads_live` names. Keeps only the latest accesses of a chunk, and the first races. Any
/// thread.
class RaceDetector {
 public:
  /// Work of a stream accesses bytes [begin, end) of the chunk, after everything in `knows`.
  void touch(ChunkHandle chunk, std::uint64_t begin, std::uint64_t end, Touch touch,
             std::uint64_t stream, std::uint64_t work, const VectorClock& knows);
  /// A host thread has observed the end of work, or a word written by it.
  void host_learns(const VectorClock& knows);
  /// What the host threads know; work that they enqueue inherits it.
  VectorClock host_knows() const;

  std::vector<Race> races() const;

 private:
  struct Access {
    std::uint64_t begin, end;
    Touch touch;
    std::uint64_t stream, work;
  };

  mutable Mutex mutex_;
  VectorClock host_ VMART_GUARDED_BY(mutex_);
  std::map<ChunkHandle, std::deque<Access>> accesses_ VMART_GUARDED_BY(mutex_);
  std::vector<Race> races_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
