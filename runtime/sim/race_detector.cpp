#include "sim/race_detector.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

constexpr std::size_t accesses_max = 512;  // Per chunk.
constexpr std::size_t races_max = 64;

const char* name_of(Touch touch) {
  switch (touch) {
    case Touch::read: return "read";
    case Touch::write: return "write";
    case Touch::atomic: return "atomic operation";
  }
  return "touch";
}

bool conflict(Touch a, Touch b) {
  // Two reads do not conflict, nor do two atomics.
  return (a == Touch::write || b == Touch::write || a != b);
}

std::string text_of(Touch touch, std::uint64_t stream, std::uint64_t work) {
  return fmt::format("{} by stream {}, work {}", name_of(touch), stream, work);
}

}  // namespace

void RaceDetector::touch(ChunkHandle chunk, std::uint64_t begin, std::uint64_t end, Touch touch,
                         std::uint64_t stream, std::uint64_t work, const VectorClock& knows) {
  const MutexLock lock(mutex_);
  std::deque<Access>& seen = accesses_[chunk];
  for (const Access& other : seen) {
    const bool apart = other.end <= begin || end <= other.begin;
    if (apart || other.stream == stream || !conflict(other.touch, touch)) continue;
    if (knows.knows(other.stream, other.work) || races_.size() >= races_max) continue;
    races_.push_back({static_cast<std::uint64_t>(chunk), std::max(begin, other.begin),
                      std::min(end, other.end), text_of(other.touch, other.stream, other.work),
                      text_of(touch, stream, work)});
  }
  // This access replaces earlier ones that happened before it and lie inside it: whatever races
  // with one of them also races with this one.
  std::erase_if(seen, [&](const Access& other) {
    const bool inside = begin <= other.begin && other.end <= end;
    const bool before = other.stream == stream || knows.knows(other.stream, other.work);
    return inside && before && (touch == Touch::write || touch == other.touch);
  });
  if (!seen.empty() && seen.back().stream == stream && seen.back().work == work &&
      seen.back().touch == touch && seen.back().end == begin) {
    seen.back().end = end;
    return;
  }
  if (seen.size() >= accesses_max) seen.pop_front();
  seen.push_back({begin, end, touch, stream, work});
}

void RaceDetector::host_learns(const VectorClock& knows) {
  const MutexLock lock(mutex_);
  host_.join(knows);
}

VectorClock RaceDetector::host_knows() const {
  const MutexLock lock(mutex_);
  return host_;
}

std::vector<Race> RaceDetector::races() const {
  const MutexLock lock(mutex_);
  return races_;
}

}  // namespace vma
