#pragma once

#include "base/mutex.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <atomic>
#include <set>
#include <string>
#include <vector>

namespace vma {

/// Records each call that must not be made while gates keep the application's work stopped: between
/// `note_stopped(+1)` and `note_stopped(-1)`. The call is made nevertheless.
/// While a gate has released `SlowCallQueue::turn` to wait for a first stream, it does not count as
/// closed: nothing is stopped yet.
///
/// If another thread of the program frees memory, it holds the lock of a context until the stopped
/// work continues. A thread that then enters that context waits too, and never opens the gate.
///
///   calls                                                      while work is stopped
///   map, unmap, grant; access, address_range, pointer_info,    permitted: a switch consists of
///   retain_handle                                              them, and they wait for nothing
///   suspend, resume; batch, queries of streams and events,     permitted: none takes the lock
///   of contexts, of the machine                                of a context
///   stop                                                       permitted: it may block until the
///                                                              gate's watchdog opens it
///   copy, fill, record, stream_wait_event, launch,             permitted in contexts that
///   launch_graph                                               `create_own_context` of this driver
///                                                              made, and in green ones if they
///                                                              are apart; in others it may hang
///   create_event, create_stream, their destruction,            may hang: it enters a context
///   make_chain, update_chain, instantiate, destruction of
///   graphs, captures, allocate_plain, allocate_pinned
///   free_plain, free_pinned, synchronize_context,              hangs: it waits for the stopped
///   load_kernel, unload_kernel, release_primary,               work; a destruction also blocks
///   destroy_context, record_context, hold_context,             every switch
///   kernel_parameters and has_parameters, which may load the
///   kernel
///   create, release, reserve, unreserve                        merely slow: the stop takes up to
///                                                              milliseconds longer, and other
///                                                              processes take turns with it
///   create_context, create_green_context, create_own_context,  merely slow, up to a second; the
///   retain_primary, free_bytes, host_node_count                last makes a chunk
///
/// Thread-safe.
class PermittedDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  /// While one lives, calls of its thread are the application's, which may make any call.
  class AsApplication {
   public:
    AsApplication() noexcept;
    ~AsApplication();
    AsApplication(const AsApplication&) = delete;
    AsApplication& operator=(const AsApplication&) = delete;
  };

  /// "launch in context 0x50, gates closed: 1": oldest first, at most the first few hundred.
  std::vector<std::string> violations() const;

  void note_stopped(int change) noexcept override;
  ContextHandle create_own_context(DeviceId device) override;
  ContextHandle create_green_context(DeviceId device, int multiprocessors) override;
  void destroy_context(ContextHandle context) override;
  void stream_wait_event(BoundStream stream, EventHandle event) override;
  void record(EventHandle event, BoundStream stream) override;
  void copy(BoundStream stream, Address target, Address source, std::uint64_t size_bytes) override;
  void fill(BoundStream stream, Address begin, std::byte value, std::uint64_t size_bytes) override;
  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override;
  void launch_graph(BoundStream stream, ExecGraphHandle graph) override;

 private:
  void around(Call call, const std::function<void()>& body) override;
  /// Checks a call in this context that is not permitted everywhere.
  void look_at(Call call, ContextHandle context);
  bool nobody_minds() const;
  void note(std::string violation);

  std::atomic<int> stopped_{0};
  mutable Mutex mutex_;
  std::set<ContextHandle> own_ VMART_GUARDED_BY(mutex_);  // Made by `create_own_context`.
  std::vector<std::string> violations_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
