#include "telemetry/thread_rings.hpp"

namespace vma {
namespace {

/// Stays readable after the list is destroyed: other objects of the thread may still record uses.
constinit thread_local bool list_is_gone = false;

}  // namespace

constinit thread_local LastRing last_ring;

ThreadRings* ThreadRings::mine() noexcept {
  if (list_is_gone) return nullptr;
  static thread_local ThreadRings rings;
  return &rings;
}

ThreadRings::~ThreadRings() {
  list_is_gone = true;
  last_ring = {};
  for (const auto& [log, ring] : rings_) ring->end();
}

UseRing* ThreadRings::find(std::uint64_t log) const noexcept {
  for (const auto& [number, ring] : rings_) {
    if (number == log) return ring.get();
  }
  return nullptr;
}

void ThreadRings::make_room() {
  std::erase_if(rings_, [](const auto& entry) { return entry.second->orphaned(); });
  rings_.reserve(rings_.size() + 1);
}

void ThreadRings::add(std::uint64_t log, std::shared_ptr<UseRing> ring) noexcept {
  rings_.emplace_back(log, std::move(ring));
}

}  // namespace vma
