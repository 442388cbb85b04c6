#include "simcuda/kernel_module.hpp"

#include <cerrno>

namespace vma::rm {
namespace {

KernelModule* only = nullptr;

}  // namespace

KernelModule::KernelModule() {
  only = this;
}

KernelModule::~KernelModule() {
  only = nullptr;
}

int KernelModule::call(int where, unsigned long request, void* argument) {
  if (where != descriptor) {
    errno = EBADF;
    return -1;
  }
  switch (escape_of(request)) {
    case escape_alloc: {
      Alloc asked{};
      auto& small = *static_cast<AllocWithoutRights*>(argument);
      asked.client = small.client;
      asked.parent = small.parent;
      asked.object = small.object;
      asked.class_id = small.class_id;
      asked.parameters = small.parameters;
      const bool has_rights = size_of(request) == sizeof(Alloc);
      return only->alloc(asked, has_rights ? static_cast<Alloc*>(argument)->status : small.status);
    }
    case escape_free: return only->free(*static_cast<Free*>(argument));
    case escape_control: return only->control(*static_cast<Control*>(argument));
    default: return 7;  // Any other call of a program, which is passed on.
  }
}

int KernelModule::alloc(Alloc& asked, std::uint32_t& status) {
  if (inside_change) inside_change();
  const MutexLock lock(mutex_);
  Object made{asked.parent, asked.class_id, 0};
  if (asked.class_id == class_device) {
    made.gpu_id = *reinterpret_cast<const std::uint32_t*>(asked.parameters);
  } else if (const auto parent = objects_.find({asked.client, asked.parent});
             parent != objects_.end()) {
    made.gpu_id = parent->second.gpu_id;
  }
  const bool fresh = objects_.emplace(std::pair(asked.client, asked.object), made).second;
  status = fresh ? 0 : refused_status;
  return 0;
}

int KernelModule::free(Free& asked) {
  if (inside_change) inside_change();
  const MutexLock lock(mutex_);
  std::set<Handle> gone{asked.object};
  for (bool more = true; more;) {
    more = false;
    for (const auto& [key, object] : objects_) {
      const bool below = key.first == asked.client &&
                         (asked.client == asked.object || gone.contains(object.parent));
      if (below) more = gone.insert(key.second).second || more;
    }
  }
  asked.status = no_such_object;
  for (const Handle each : gone) {
    if (objects_.erase({asked.client, each}) > 0) asked.status = 0;
    off_.erase(each);
  }
  return 0;
}

int KernelModule::control(Control& asked) {
  if (refuse) {
    asked.status = refuse(asked);
    if (asked.status != 0) return 0;
  }
  {
    const MutexLock lock(mutex_);
    ++controls_[asked.command];
    asked.status = answer(asked);
  }
  if (asked.command == command_disable_channels && asked.status == 0 && switched) {
    const auto& names = *reinterpret_cast<const DisableChannels*>(asked.parameters);
    switched({names.channels, names.count}, names.disable != 0);
  }
  return 0;
}

std::uint32_t KernelModule::answer(Control& asked) VMART_NO_THREAD_ANALYSIS {
  const auto target = objects_.find({asked.client, asked.object});
  switch (asked.command) {
    case command_gpu_id:
      if (target == objects_.end() || target->second.class_id != class_subdevice) break;
      *reinterpret_cast<std::uint32_t*>(asked.parameters) = target->second.gpu_id;
      return 0;
    case command_handle_info: {
      auto& info = *reinterpret_cast<HandleInfo*>(asked.parameters);
      const auto found = objects_.find({asked.client, info.object});
      if (found == objects_.end()) break;
      info.result =
          info.index == HandleInfo::parent ? found->second.parent : found->second.class_id;
      return 0;
    }
    case command_disable_channels: {
      const auto& names = *reinterpret_cast<const DisableChannels*>(asked.parameters);
      if (target == objects_.end() || target->second.class_id != class_subdevice) break;
      for (std::uint32_t i = 0; i < names.count; ++i) {
        const auto channel = objects_.find({names.clients[i], names.channels[i]});
        const bool fits = channel != objects_.end() && is_channel(channel->second.class_id) &&
                          channel->second.gpu_id == target->second.gpu_id;
        if (!fits) return no_such_object;
      }
      if (names.disable != 0) {
        named_.emplace_back(names.channels, names.channels + names.count);
        off_.insert(names.channels, names.channels + names.count);
      } else {
        for (std::uint32_t i = 0; i < names.count; ++i) off_.erase(names.channels[i]);
      }
      return 0;
    }
    default: break;
  }
  return no_such_object;
}

bool KernelModule::is_off(Handle channel) const {
  const MutexLock lock(mutex_);
  return off_.contains(channel);
}

std::set<Handle> KernelModule::off() const {
  const MutexLock lock(mutex_);
  return off_;
}

int KernelModule::controls(std::uint32_t command) const {
  const MutexLock lock(mutex_);
  const auto found = controls_.find(command);
  return found == controls_.end() ? 0 : found->second;
}

std::vector<std::vector<Handle>> KernelModule::named() const {
  const MutexLock lock(mutex_);
  return named_;
}

}  // namespace vma::rm
