#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/process_exit.hpp"
#include "driver/rm/objects.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace vma::rm {

/// The channels through which this process gives work to its GPUs, and taking them off the GPUs.
/// Any thread.
///
/// libcuda tells NVIDIA's kernel module by `ioctl` what it needs. `watch` puts `pass` in the place
/// of that call, which notes the channels that are made and freed; those from before, if libcuda
/// was in use, are asked of the kernel, which takes half a second: see `look_ahead`. One control of
/// the kernel module, which every process may use on its own channels, takes up to 64 of them off a
/// GPU, in the middle of any kernel, or puts them back. The kernel does that one GPU after the
/// other, since it takes the locks of all GPUs each time.
///
/// No channel is made or freed while others are taken off or put back. One that is made while work
/// is suspended stays on: libcuda may be inside a call in which it waits for that channel.
/// One owner: what is known of channels changes only while none is taken off or put back.
class Channels {
 public:
  using Ioctl = int (*)(int descriptor, unsigned long request, void* argument);

  /// `kernel` is the way to the kernel module.
  explicit Channels(Ioctl kernel) : kernel_(kernel), process_(ProcessExit::process()) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  static Channels& of_process() noexcept;

  /// Puts `pass` in the place of the `ioctl` of the library around that address, which is libcuda.
  /// If that cannot be, no suspension is possible.
  static void watch(const void* in_libcuda) noexcept;
  /// Does most of what the first suspension would have to do otherwise, if libcuda was in use
  /// before it was watched. Blocks: for half a second, or until `given_up` says so; only a
  /// suspension waits for it.
  void look_ahead(const std::function<bool()>& given_up);
  /// The calls are not watched: no suspension is possible.
  void lose_track() noexcept;
  /// What libcuda calls in the place of `ioctl`: makes the call, and notes what it changed.
  int pass(int descriptor, unsigned long request, void* argument) noexcept;

  /// While one lives, what its thread makes belongs to a context of the runtime's own, which is
  /// never suspended. Every call in such a context has one, also beside suspended work: it blocks
  /// nowhere.
  class Own {
   public:
    Own() noexcept;
    ~Own();
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
  };
  /// The same around the creation of such a context, and nothing is suspended while one lives:
  /// libcuda keeps its lock while it creates a context, and beside suspended work it does not
  /// return. Blocks: while work is suspended, for ten seconds at most.
  class Creation {
   public:
    explicit Creation(Channels& channels) noexcept;
    ~Creation();
    Creation(const Creation&) = delete;
    Creation& operator=(const Creation&) = delete;

   private:
    Channels& channels_;
  };

  /// Takes the program's channels, or own ones too, off the GPUs with these ids; see `gpu_id_of`.
  /// Throws and blocks: as `Driver::suspend`; Error{busy} if another thread has been making or
  /// freeing channels for a second.
  SuspensionHandle suspend(std::span<const std::uint32_t> gpu_ids,
                           Objects::Whose whose = Objects::Whose::program);
  /// As `Driver::resume`.
  void resume(SuspensionHandle suspension);

 private:
  /// Channels of one GPU that one control names.
  struct Batch {
    int descriptor = -1;
    Handle client = 0, subdevice = 0;
    std::vector<Handle> channels;
  };

  int pass_alloc(int descriptor, unsigned long request, void* argument) noexcept;
  int pass_free(int descriptor, unsigned long request, void* argument) noexcept;
  void note_handle(const AllocWithoutRights& asked) noexcept;
  void begin_creation() noexcept;
  void begin_change() noexcept;
  void end_change() noexcept;
  void begin_switch(MutexLock& lock) VMART_REQUIRES(mutex_);
  void end_switch() noexcept;
  std::vector<Batch> batches(std::span<const std::uint32_t> gpu_ids, Objects::Whose whose) const;
  bool is_on(const Objects::DeviceChannels& device, std::span<const std::uint32_t> gpu_ids) const;
  std::uint32_t set(const Batch& batch, bool disable) const noexcept;
  std::uint32_t control(int descriptor, Handle client, Handle object, std::uint32_t command,
                        void* parameters, std::uint32_t size) const noexcept;
  std::optional<std::uint64_t> info(int descriptor, Handle client, Handle object,
                                    std::uint32_t index) const noexcept;
  std::uint32_t put_back(std::vector<Batch>& batches) noexcept;
  void find_existing();
  void list_clients(int descriptor, Handle begin, Handle end, const std::function<bool()>& given_up)
      VMART_REQUIRES(listing_);
  void find_objects(int descriptor, Handle client);

  const Ioctl kernel_;
  const int process_;
  const SteadyClock clock_;
  Objects objects_;

  Mutex mutex_;
  Condition changed_;
  int changes_ VMART_GUARDED_BY(mutex_) = 0;  // Threads that make or free channels.
  bool switching_ VMART_GUARDED_BY(mutex_) = false;
  bool lost_track_ VMART_GUARDED_BY(mutex_) = false;  // There are channels that `objects_` lacks.
  std::uint64_t last_ VMART_GUARDED_BY(mutex_) = 0;
  SuspensionHandle suspension_ VMART_GUARDED_BY(mutex_) = {};
  // Only a thread that switches uses these.
  std::vector<Batch> off_;
  // The kernel has been asked for the channels from before.
  std::atomic<bool> asked_{false};
  Mutex listing_;  // Never taken with `mutex_` held.
  /// Of the kernel module, from before its calls were watched: descriptors, and handles there.
  std::set<std::pair<int, Handle>> clients_ VMART_GUARDED_BY(listing_);
  std::set<int> listed_ VMART_GUARDED_BY(listing_);  // Descriptors, whole.
};

}  // namespace vma::rm
