#include "driver/rm/channels.hpp"

#include "base/loader/loaded_library.hpp"
#include "base/process_exit.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace vma::rm {
namespace {

/// The handles that the kernel gives to clients.
constexpr Handle first_client = 0xc1d00000, clients_end = first_client + 0x10000;
constexpr auto disable_call = "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS";
constexpr std::chrono::seconds change_limit(1), other_limit(10);

/// Statuses of the kernel module that say something to a user (nvstatuscodes.h).
enum Status : std::uint32_t {
  status_ok = 0,
  status_gpu_lost = 0x0f,
  status_not_permitted = 0x1b,
  status_not_supported = 0x56,
  status_timeout = 0x65,
  status_no_call = 0x80000000,  // Ours: the system refused the call, with this and its errno.
};

std::string text_of(std::uint32_t status) {
  switch (status) {
    case status_gpu_lost: return "the GPU is lost";
    case status_not_permitted: return "not permitted here";
    case status_not_supported: return "not supported by this driver";
    case status_timeout: return "the GPU did not answer in time";
    default: break;
  }
  if ((status & status_no_call) == 0) return fmt::format("status {:#x}", status);
  const int code = static_cast<int>(status & ~status_no_call);
  return fmt::format("the system refuses the call: {}",
                     std::error_code(code, std::generic_category()).message());
}

/// The call has not been made at all.
bool never_works(std::uint32_t status) {
  return status == status_not_permitted || status == status_not_supported ||
         (status & status_no_call) != 0;
}

Error refused(std::uint32_t status) {
  return {never_works(status) ? ErrorKind::unsupported : ErrorKind::driver_failure, disable_call,
          text_of(status)};
}

int call_system(int descriptor, unsigned long request, void* argument) {
  return ioctl(descriptor, request, argument);
}

/// What libcuda called before `watch`.
std::atomic<Channels::Ioctl> bound{&call_system};

int call_bound(int descriptor, unsigned long request, void* argument) {
  return bound.load(std::memory_order_acquire)(descriptor, request, argument);
}

/// `ioctl` as libcuda sees it.
int watched_ioctl(int descriptor, unsigned long request, void* argument) {
  return Channels::of_process().pass(descriptor, request, argument);
}

thread_local int own_depth = 0, creation_depth = 0;

/// Descriptors of the control device that the process has open.
std::vector<int> control_devices() {
  std::vector<int> found;
  std::error_code ended;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", ended), end;
       !ended && entry != end; entry.increment(ended)) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry->path(), gone);
    if (!gone && target.filename() == "nvidiactl") {
      found.push_back(std::stoi(entry->path().filename()));
    }
  }
  return found;
}

}  // namespace

Channels& Channels::of_process() noexcept {
  static Immortal<Channels> only(&call_bound);
  return *only;
}

void Channels::watch(const void* in_libcuda) noexcept {
  struct Walk {
    const void* inside;
    bool found = false;
  } walk{in_libcuda};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& out = *static_cast<Walk*>(data);
        const LoadedLibrary library(*info);
        if (!library.contains(out.inside)) return 0;
        const auto* const ours = reinterpret_cast<const void*>(&watched_ioctl);
        bool named = false;
        const bool written =
            library.for_each_slot([&](const LoadedLibrary::Slot& slot) -> const void* {
              if (std::strcmp(slot.name, "ioctl") != 0) return nullptr;
              named = true;
              if (slot.filled && slot.bound != ours) {
                bound = reinterpret_cast<Ioctl>(const_cast<void*>(slot.bound));
              }
              return ours;
            });
        out.found = named && written;
        return 1;
      },
      &walk);
  Channels& all = of_process();
  const MutexLock lock(all.mutex_);
  all.lost_track_ = all.lost_track_ || !walk.found;
  try {
    // Libcuda has not been used yet, so no channel is from before.
    if (control_devices().empty()) all.asked_ = true;
  } catch (const std::exception&) {  // The kernel is asked.
  }
}

Channels::Own::Own() noexcept {
  ++own_depth;
}

Channels::Own::~Own() {
  --own_depth;
}

Channels::Creation::Creation(Channels& channels) noexcept : channels_(channels) {
  ++own_depth;
  ++creation_depth;
  channels.begin_creation();
}

Channels::Creation::~Creation() {
  channels_.end_change();
  --creation_depth;
  --own_depth;
}

/// A stuck suspension is not waited for without end.
void Channels::begin_creation() noexcept {
  MutexLock lock(mutex_);
  SteadyClock clock;
  changed_.wait_until(lock, clock, clock.now() + other_limit, [&]() VMART_NO_THREAD_ANALYSIS {
    return !switching_ && is_none(suspension_);
  });
  ++changes_;
}

/// A forked child has a copy of all this, in the middle of whatever the parent was doing.
int Channels::pass(int descriptor, unsigned long request, void* argument) noexcept {
  if (ProcessExit::process() != process_) return kernel_(descriptor, request, argument);
  switch (escape_of(request)) {
    case escape_alloc: return pass_alloc(descriptor, request, argument);
    case escape_free: return pass_free(descriptor, request, argument);
    default: return kernel_(descriptor, request, argument);
  }
}

int Channels::pass_alloc(int descriptor, unsigned long request, void* argument) noexcept {
  const auto& asked = *static_cast<const AllocWithoutRights*>(argument);
  if (!asked_) note_handle(asked);
  if (!Objects::are_followed(asked.class_id)) return kernel_(descriptor, request, argument);
  begin_change();
  const int result = kernel_(descriptor, request, argument);
  const int error = errno;
  const bool known_size =
      size_of(request) == sizeof(Alloc) || size_of(request) == sizeof(AllocWithoutRights);
  if (!known_size) lose_track();
  const std::uint32_t status =
      size_of(request) < sizeof(Alloc) ? asked.status : static_cast<const Alloc*>(argument)->status;
  if (result == 0 && status == status_ok) {
    try {
      objects_.add(
          {descriptor, asked.client, asked.parent, asked.object, asked.class_id, own_depth > 0});
    } catch (const std::bad_alloc&) {
      lose_track();
    }
  }
  end_change();
  errno = error;
  return result;
}

/// All that was made before has a lower one.
void Channels::note_handle(const AllocWithoutRights& asked) noexcept {
  try {
    objects_.saw(asked.client, asked.object);
  } catch (const std::bad_alloc&) {
    lose_track();
  }
}

int Channels::pass_free(int descriptor, unsigned long request, void* argument) noexcept {
  const auto& asked = *static_cast<const Free*>(argument);
  if (!objects_.contains(asked.client, asked.object)) {
    return kernel_(descriptor, request, argument);
  }
  begin_change();
  int result = 0;
  int error = 0;
  bool made = false;
  try {
    // Before the call: afterwards another thread may have got the same handle.
    const std::vector<Objects::Object> taken = objects_.take_out(asked.client, asked.object);
    made = true;
    result = kernel_(descriptor, request, argument);
    error = errno;
    if (result != 0 || asked.status != status_ok) objects_.put_back(taken);
  } catch (const std::bad_alloc&) {
    if (!made) {
      result = kernel_(descriptor, request, argument);
      error = errno;
    }
    lose_track();
  }
  end_change();
  errno = error;
  return result;
}

void Channels::lose_track() noexcept {
  const MutexLock lock(mutex_);
  lost_track_ = true;
}

void Channels::begin_change() noexcept {
  MutexLock lock(mutex_);
  // A switch waits for a thread that makes a context of our own.
  changed_.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS { return !switching_ || creation_depth > 0; });
  ++changes_;
}

void Channels::end_change() noexcept {
  const MutexLock lock(mutex_);
  if (--changes_ == 0) changed_.notify_all();
}

/// Waits until no channel is being made or freed; new ones wait from then on.
void Channels::begin_switch(MutexLock& lock) {
  switching_ = true;
  SteadyClock clock;
  const bool quiet = changed_.wait_until(lock, clock, clock.now() + change_limit,
                                         [&]() VMART_NO_THREAD_ANALYSIS { return changes_ == 0; });
  if (quiet) return;
  switching_ = false;
  changed_.notify_all();
  throw Error(ErrorKind::busy, disable_call,
              "another thread has been creating or destroying a context for a second");
}

void Channels::end_switch() noexcept {
  const MutexLock lock(mutex_);
  switching_ = false;
  changed_.notify_all();
}

SuspensionHandle Channels::suspend(std::span<const std::uint32_t> gpu_ids, Objects::Whose whose) {
  if (!asked_) const MutexLock ahead(listing_);  // Before threads that make channels have to wait.
  MutexLock lock(mutex_);
  SteadyClock clock;
  const bool none = changed_.wait_until(
      lock, clock, clock.now() + other_limit,
      [&]() VMART_NO_THREAD_ANALYSIS { return is_none(suspension_) && !switching_; });
  if (!none) {
    throw Error(ErrorKind::busy, disable_call,
                "another thread keeps the work of this process suspended. Try again later");
  }
  begin_switch(lock);
  if (lost_track_) {
    switching_ = false;
    changed_.notify_all();
    throw Error(
        ErrorKind::unsupported, disable_call,
        "some channels of this process are not known: the calls of libcuda are not watched "
        "(VMART_STOP was gate when the process began to use vmart), or one could not be noted");
  }
  const auto made = suspension_ = SuspensionHandle{++last_};
  lock.unlock();
  try {
    static_cast<void>(put_back(off_));  // What the last one could not.
    if (!asked_) find_existing();
    asked_ = true;
    std::vector<Batch> wanted = batches(gpu_ids, whose);
    off_.reserve(off_.size() + wanted.size());
    for (Batch& batch : wanted) {
      const std::uint32_t status = set(batch, true);
      if (!never_works(status)) off_.push_back(std::move(batch));  // A part may be off if it fails.
      if (status != status_ok) throw refused(status);
    }
  } catch (const std::exception& error) {
    const std::uint32_t left = put_back(off_);
    lock.lock();
    suspension_ = {};
    lock.unlock();
    end_switch();
    if (left == status_ok) throw;
    throw Error(ErrorKind::driver_failure, disable_call,
                fmt::format("{}; what was off its GPU by then is not put back yet ({})",
                            error.what(), text_of(left)));
  }
  end_switch();
  return made;
}

void Channels::resume(SuspensionHandle suspended) {
  MutexLock lock(mutex_);
  const auto ended = [&]() VMART_NO_THREAD_ANALYSIS { return suspension_ != suspended; };
  changed_.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS { return ended() || !switching_; });
  if (ended()) return;
  if (off_.empty()) {
    suspension_ = {};
    return changed_.notify_all();
  }
  begin_switch(lock);
  lock.unlock();
  const std::uint32_t left = put_back(off_);
  lock.lock();
  if (left == status_ok) suspension_ = {};
  lock.unlock();
  end_switch();
  if (left != status_ok) {
    throw Error(ErrorKind::driver_failure, disable_call,
                fmt::format("the channels of this process are not put back on their GPUs: {}",
                            text_of(left)));
  }
}

/// Puts all back that still exist, and leaves those for which the kernel refuses that. Returns the
/// last refusal. Nothing goes on on a GPU that is lost.
std::uint32_t Channels::put_back(std::vector<Batch>& batches) noexcept {
  std::uint32_t left = status_ok;
  std::erase_if(batches, [&](Batch& batch) {
    std::erase_if(batch.channels,
                  [&](Handle channel) { return !objects_.contains(batch.client, channel); });
    if (batch.channels.empty()) return true;
    const std::uint32_t status = set(batch, false);
    if (status == status_ok || status == status_gpu_lost) return true;
    left = status;
    return false;
  });
  return left;
}

/// What to take off, in calls that name whole groups.
std::vector<Channels::Batch> Channels::batches(std::span<const std::uint32_t> gpu_ids,
                                               Objects::Whose whose) const {
  std::vector<Batch> all;
  const std::vector<Objects::DeviceChannels> devices = objects_.channels(whose);
  if (devices.empty()) {
    throw Error(ErrorKind::unsupported, disable_call,
                "no channels of this process are known, as under MPS, where a server has them");
  }
  for (const Objects::DeviceChannels& device : devices) {
    if (device.subdevice == 0 || device.descriptor < 0) {
      throw Error(
          ErrorKind::unsupported, disable_call,
          fmt::format("client {:#x} has channels on a GPU that it does not name", device.client));
    }
    if (!is_on(device, gpu_ids)) continue;
    const Batch empty{device.descriptor, device.client, device.subdevice, {}};
    all.push_back(empty);
    for (const std::vector<Handle>& group : device.groups) {
      std::vector<Handle>* into = &all.back().channels;
      if (!into->empty() && into->size() + group.size() > DisableChannels::channels_max) {
        all.push_back(empty);
        into = &all.back().channels;
      }
      into->insert(into->end(), group.begin(), group.end());
      if (into->size() > DisableChannels::channels_max) {
        throw Error(ErrorKind::unsupported, disable_call,
                    fmt::format("a group has {} channels, and one call takes {}", group.size(),
                                DisableChannels::channels_max));
      }
    }
  }
  return all;
}

/// A GPU that does not say its id counts as one of them.
bool Channels::is_on(const Objects::DeviceChannels& device,
                     std::span<const std::uint32_t> gpu_ids) const {
  std::uint32_t id = 0;
  const std::uint32_t status =
      control(device.descriptor, device.client, device.subdevice, command_gpu_id, &id, sizeof id);
  return status != status_ok || std::ranges::find(gpu_ids, id) != gpu_ids.end();
}

std::uint32_t Channels::set(const Batch& batch, bool disable) const noexcept {
  DisableChannels parameters{};
  parameters.disable = disable ? 1 : 0;
  for (const Handle channel : batch.channels) {
    parameters.clients[parameters.count] = batch.client;
    parameters.channels[parameters.count++] = channel;
  }
  return control(batch.descriptor, batch.client, batch.subdevice, command_disable_channels,
                 &parameters, sizeof parameters);
}

std::uint32_t Channels::control(int descriptor, Handle client, Handle object, std::uint32_t command,
                                void* parameters, std::uint32_t size) const noexcept {
  Control asked{client, object, command, 0, reinterpret_cast<std::uint64_t>(parameters), size, 0};
  if (kernel_(descriptor, request_of(escape_control, sizeof asked), &asked) != 0) {
    return status_no_call | static_cast<std::uint32_t>(errno);
  }
  return asked.status;
}

std::optional<std::uint64_t> Channels::info(int descriptor, Handle client, Handle object,
                                            std::uint32_t index) const noexcept {
  HandleInfo asked{object, HandleInfo::Index{index}, 0};
  const std::uint32_t status =
      control(descriptor, client, client, command_handle_info, &asked, sizeof asked);
  if (status != status_ok) return std::nullopt;
  return asked.result;
}

/// libcuda lets the kernel count its clients, and counts its objects itself. What was made since
/// the clients were listed by libraries whose calls are not watched lies beyond them, or on
/// descriptors of its own.
void Channels::find_existing() {
  constexpr Handle made_since_max = 0x1000;
  const MutexLock lock(listing_);
  const std::vector<int> descriptors = control_devices();
  std::erase_if(clients_, [&](const auto& client) {
    return std::ranges::find(descriptors, client.first) == descriptors.end();
  });
  Handle last = first_client;
  for (const auto& [descriptor, client] : clients_) last = std::max(last, client);
  for (const int descriptor : descriptors) {
    const bool listed = listed_.contains(descriptor);
    list_clients(descriptor, listed ? last + 1 : first_client,
                 listed ? std::min(clients_end, last + 1 + made_since_max) : clients_end,
                 [] { return false; });
  }
  for (const auto& [descriptor, client] : clients_) find_objects(descriptor, client);
}

void Channels::look_ahead(const std::function<bool()>& given_up) {
  const MutexLock lock(listing_);
  if (asked_) return;
  for (const int descriptor : control_devices()) {
    if (listed_.contains(descriptor)) continue;
    list_clients(descriptor, first_client, clients_end, given_up);
  }
}

void Channels::list_clients(int descriptor, Handle begin, Handle end,
                            const std::function<bool()>& given_up) {
  constexpr Handle asked_at_once = 0x100;
  for (Handle client = begin; client < end; ++client) {
    if (client % asked_at_once == 0 && given_up()) return;
    if (info(descriptor, client, client, HandleInfo::class_id))
      clients_.emplace(descriptor, client);
  }
  listed_.insert(descriptor);
}

/// Up to the highest that it has made since it is watched, and as long as there are some behind. A
/// program that has freed many may leave wide gaps; each question takes microseconds.
void Channels::find_objects(int descriptor, Handle client) {
  constexpr Handle first_object = 0x5c000000, gap_max = 0x2000, asked_max = 0x80000;
  const Handle highest = objects_.highest(client);
  for (Handle object = first_object, last = object; object <= highest || object - last < gap_max;
       ++object) {
    if (object - first_object == asked_max) {
      throw Error(ErrorKind::unsupported, disable_call,
                  fmt::format("this process made more than {} objects of the driver before vmart "
                              "saw it, too many to look for its channels among; open vmart earlier",
                              asked_max));
    }
    const auto class_id = info(descriptor, client, object, HandleInfo::class_id);
    if (!class_id) continue;
    last = object;
    const auto found = static_cast<std::uint32_t>(*class_id);
    if (!Objects::are_followed(found) || objects_.contains(client, object)) continue;
    const auto parent = info(descriptor, client, object, HandleInfo::parent);
    if (!parent) continue;
    objects_.add({descriptor, client, static_cast<Handle>(*parent), object, found, false});
  }
}

}  // namespace vma::rm
