#include "driver/rm/objects.hpp"

#include <algorithm>
#include <tuple>

namespace vma::rm {

bool Objects::are_followed(std::uint32_t class_id) noexcept {
  return class_id == class_device || class_id == class_subdevice ||
         class_id == class_channel_group || is_channel(class_id);
}

void Objects::add(const Object& object) {
  const MutexLock lock(mutex_);
  objects_.insert_or_assign({object.client, object.self}, object);
}

void Objects::saw(Handle client, Handle object) {
  const MutexLock lock(mutex_);
  Handle& highest = highest_[client];
  highest = std::max(highest, object);
}

Handle Objects::highest(Handle client) const {
  const MutexLock lock(mutex_);
  const auto found = highest_.find(client);
  return found == highest_.end() ? 0 : found->second;
}

bool Objects::contains(Handle client, Handle object) const {
  const MutexLock lock(mutex_);
  if (find(client, object) != nullptr) return true;
  const auto first = objects_.lower_bound({client, 0});
  return client == object && first != objects_.end() && first->first.first == client;
}

std::vector<Objects::Object> Objects::take_out(Handle client, Handle object) {
  const MutexLock lock(mutex_);
  std::vector<Object> taken;
  for (const auto& [key, candidate] : objects_) {
    if (key.first != client) continue;
    if (client == object || is_below(candidate, object)) taken.push_back(candidate);
  }
  for (const Object& each : taken) objects_.erase({each.client, each.self});
  return taken;
}

void Objects::put_back(const std::vector<Object>& objects) {
  for (const Object& object : objects) add(object);
}

std::vector<Objects::DeviceChannels> Objects::channels(Whose whose) const {
  const MutexLock lock(mutex_);
  std::map<Key, std::map<Handle, std::vector<Handle>>> of_devices;  // By device and group.
  for (const auto& [key, object] : objects_) {
    if (!is_channel(object.class_id)) continue;
    if (object.own && whose == Whose::program) continue;
    const Object* const device = device_of(object);
    const Handle of = device != nullptr ? device->self : 0;
    of_devices[{object.client, of}][object.parent].push_back(object.self);
  }
  std::vector<DeviceChannels> all;
  for (const auto& [key, groups] : of_devices) {
    DeviceChannels found;
    found.client = key.first;
    for (const auto& [other, object] : objects_) {
      if (object.client != key.first) continue;
      if (object.self == key.second) found.descriptor = object.descriptor;
      const bool is_subdevice = object.class_id == class_subdevice && object.parent == key.second;
      if (is_subdevice && found.subdevice == 0) found.subdevice = object.self;
    }
    for (const auto& [group, members] : groups) found.groups.push_back(members);
    all.push_back(std::move(found));
  }
  return all;
}

const Objects::Object* Objects::find(Handle client, Handle object) const {
  const auto found = objects_.find({client, object});
  return found == objects_.end() ? nullptr : &found->second;
}

/// The kernel's objects form a tree, but a table that missed some of it need not.
const Objects::Object* Objects::device_of(const Object& object) const {
  const Object* at = &object;
  for (int depth = 0; at != nullptr && depth < 8; ++depth) {
    if (at->class_id == class_device) return at;
    at = find(at->client, at->parent);
  }
  return nullptr;
}

bool Objects::is_below(const Object& object, Handle ancestor) const {
  const Object* at = &object;
  for (int depth = 0; at != nullptr && depth < 8; ++depth) {
    if (at->self == ancestor || at->parent == ancestor) return true;
    at = find(at->client, at->parent);
  }
  return false;
}

}  // namespace vma::rm
