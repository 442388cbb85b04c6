#include "lab/replay/replay_objects.hpp"

#include "base/check.hpp"

namespace vma {

ReplayObjects::Index ReplayObjects::add(const Object& object) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<Index>(objects_.size()));
    objects_.emplace_back();
  }
  const Index index = unused_.back();
  unused_.pop_back();
  objects_[index] = object;
  live_[object.number] = index;
  return index;
}

ReplayObjects::Index ReplayObjects::find(std::uint64_t number) const {
  const auto found = live_.find(number);
  return found == live_.end() ? none : found->second;
}

void ReplayObjects::free(Index index) {
  Object& object = objects_[index];
  VMART_CHECK(!object.freed, "an object is freed once");
  object.freed = true;
  live_.erase(object.number);
}

void ReplayObjects::remove(Index index) {
  VMART_CHECK(objects_[index].freed && objects_[index].pins == 0, "nothing uses it anymore");
  objects_[index] = {};
  unused_.push_back(index);
}

void ReplayObjects::belongs(ChunkId chunk, Index object) {
  if (owners_.size() <= vma::index(chunk)) owners_.resize(vma::index(chunk) + 1, none);
  owners_[vma::index(chunk)] = object;
}

}  // namespace vma
