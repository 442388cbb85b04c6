// Contexts as the kernel module knows them: each has a group with a channel, on its GPU.
#include "simcuda/ioctl.hpp"
#include "simcuda/library.hpp"

#include "base/environment.hpp"
#include "base/mutex.hpp"
#include "driver/rm/objects.hpp"
#include "simcuda/kernel_module.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace vma {
namespace {

using rm::Handle;

constexpr Handle client = 0xc1d00001, first_handle = 0x5c000001;
constexpr std::uint32_t channel_class = 0xc86f;  // Hopper's.

class ChannelTable {
 public:
  /// Null if SIMCUDA_CHANNELS is 0.
  static ChannelTable* of_process() {
    static ChannelTable* const only = wanted() ? new ChannelTable : nullptr;
    return only;
  }

  /// One thread at a time: contexts are opened under a lock.
  void open(ContextHandle context) {
    const Handle device = device_object(sim().context_device(context));
    const Handle group = make(device, rm::class_channel_group);
    const Handle channel = make(group, channel_class);
    const MutexLock lock(mutex_);
    of_context_[context] = {group, channel};
    contexts_[channel] = context;
  }

  void close(ContextHandle context) noexcept {
    Pair closing;
    {
      const MutexLock lock(mutex_);
      const auto found = of_context_.find(context);
      if (found == of_context_.end()) return;
      closing = found->second;
      of_context_.erase(found);
      contexts_.erase(closing.channel);
    }
    rm::Free asked{client, 0, closing.group, 0};
    ioctl(rm::KernelModule::descriptor, rm::request_of(rm::escape_free, sizeof(asked)), &asked);
  }

 private:
  struct Pair {
    Handle group = 0, channel = 0;
  };

  static bool wanted() {
    const char* const setting = environment_variable("SIMCUDA_CHANNELS");
    return setting == nullptr || std::string_view(setting) != "0";
  }

  ChannelTable() {
    kernel_.switched = [this](std::span<const Handle> channels, bool off) {
      switch_contexts(channels, off);
    };
    open_control_device();
    simcuda_answer_ioctl(&rm::KernelModule::call);
    allocate({client, client, client, rm::class_client, 0, 0, 0, 0, 0, 0});
  }

  /// A file beside the library that has the same name as the driver's, by which those find the
  /// kernel who come when there are channels already.
  static void open_control_device() {
    const int opened = ::open((library_folder() + "/nvidiactl").c_str(), O_RDONLY | O_CLOEXEC);
    if (opened < 0) {
      std::fprintf(stderr, "simcuda: %s/nvidiactl: %s\n", library_folder().c_str(),
                   std::strerror(errno));
      refuse(CUDA_ERROR_OPERATING_SYSTEM);
    }
    rm::KernelModule::descriptor = opened;
  }

  /// A machine that is gone with the process has nothing to switch.
  void switch_contexts(std::span<const Handle> channels, bool off) noexcept try {
    std::vector<ContextHandle> named;
    {
      const MutexLock lock(mutex_);
      for (const Handle channel : channels) {
        const auto found = contexts_.find(channel);
        if (found != contexts_.end()) named.push_back(found->second);
      }
    }
    sim().switch_channels(named, off);
  } catch (const std::exception&) {
  } catch (const Refusal&) {
  }

  /// That of the GPU, with a subdevice, made when it is first needed.
  Handle device_object(DeviceId device) {
    Handle& object = devices_[device];
    if (object != 0) return object;
    unsigned domain = 0, bus = 0, slot = 0;
    std::sscanf(sim().device_info(device).pci_bus_id.c_str(), "%x:%x:%x", &domain, &bus, &slot);
    const std::uint32_t gpu = rm::gpu_id_of(domain, bus, slot);
    object = make(client, rm::class_device, &gpu);
    make(object, rm::class_subdevice);
    return object;
  }

  Handle make(Handle parent, std::uint32_t class_id, const std::uint32_t* parameters = nullptr) {
    const Handle made = next_++;
    allocate({client, parent, made, class_id, reinterpret_cast<std::uintptr_t>(parameters), 0, 0, 0,
              0, 0});
    return made;
  }

  void allocate(rm::Alloc asked) {
    const unsigned long request = rm::request_of(rm::escape_alloc, sizeof(asked));
    const int result = ioctl(rm::KernelModule::descriptor, request, &asked);
    if (result != 0 || asked.status != 0) refuse(CUDA_ERROR_UNKNOWN);
  }

  rm::KernelModule kernel_;
  Handle next_ = first_handle;
  std::map<DeviceId, Handle> devices_;
  Mutex mutex_;
  std::map<ContextHandle, Pair> of_context_ VMART_GUARDED_BY(mutex_);
  std::map<Handle, ContextHandle> contexts_ VMART_GUARDED_BY(mutex_);
};

}  // namespace

void open_channels(ContextHandle context) {
  if (ChannelTable* const table = ChannelTable::of_process()) table->open(context);
}

void close_channels(ContextHandle context) noexcept {
  if (ChannelTable* const table = ChannelTable::of_process()) table->close(context);
}

}  // namespace vma
