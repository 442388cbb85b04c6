#pragma once

#include "base/executor.hpp"
#include "base/ids.hpp"
#include "machine/cost_model.hpp"
#include "sim/backing_store.hpp"
#include "sim/progress.hpp"
#include "sim/sim_clock.hpp"
#include "sim/sim_options.hpp"
#include "sim/sim_memory.hpp"
#include "sim/sim_routes.hpp"
#include "sim/sim_stream.hpp"
#include "sim/work_runner.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {

struct SimEvent {
  ContextHandle context{};
  CompletionPtr completion;  ///< Of the latest record; done if there was none.
  std::weak_ptr<SimCapture> capture;
  SimStream* captured_on = nullptr;
};

struct SimExecGraph {
  std::shared_ptr<const WorkList> nodes;
  ContextHandle chain_of{};   ///< None if the graph was captured.
  CompletionPtr last_launch;  ///< The next launch starts after it. Null before the first.
};

/// The parts of a simulated machine and its handle tables. SimDriver's calls look handles up here,
/// under the lock of `progress`; unknown handles throw.
class SimMachine {
 public:
  SimMachine(MachineDescription machine, const SimOptions& sim_options);
  ~SimMachine();

  // Constant after construction, or guarded by their own locks.
  const MachineDescription description;
  const SimOptions options;
  /// Number of the machine in this process; the upper half of its handles.
  const std::uint64_t serial;
  ThreadedExecutor threads;
  Executor& executor;
  SimClock clock;
  CostModel costs;
  BackingStore store;
  SimMemory memory;
  SimRoutes routes;
  WorkRunner runner;
  RaceDetector races;
  Progress progress;

  // Guarded by the lock of `progress`.
  struct Suspension {
    SuspensionHandle handle{};   ///< None: nothing is suspended.
    bool everything = false;     ///< Own contexts, too.
    std::vector<DeviceId> gpus;  ///< Those that are still suspended.
    bool changing = false;       ///< A thread is taking work off, or putting it back.
    /// Whether it takes the context's channels off, once it comes to its GPU.
    bool concerns(const SimContext& context) const noexcept {
      return context.shared == nullptr && (!context.own || everything);
    }
  };
  Suspension suspension;
  std::map<ContextHandle, std::unique_ptr<SimContext>> contexts;
  std::vector<SimContext*> primaries;  ///< By device; null while inactive.
  std::map<StreamHandle, std::unique_ptr<SimStream>> streams;
  std::vector<std::unique_ptr<SimStream>>
      retired;  ///< Destroyed; their last work may be in progress.
  std::map<EventHandle, SimEvent> events;
  std::map<KernelHandle, std::shared_ptr<const LoadedKernel>> kernels;
  std::map<GraphHandle, std::shared_ptr<const WorkList>> graphs;
  std::map<ExecGraphHandle, SimExecGraph> exec_graphs;
  std::uint64_t last_capture_id = 0;
  int destroying = 0;  ///< Threads inside `await_others_of_device`.

  /// Both throw: for a range that is not fully mapped, and for a word that is not aligned.
  void require_mapped(Address begin, std::uint64_t size_bytes, const char* call) const;
  void require_word(const WordOperation& operation, const char* call) const;

  template <typename Handle>
  Handle next_handle() {
    return Handle{++last_handle_};
  }

  /// Implements both kinds of `Driver::suspend`.
  SuspensionHandle suspend(std::span<const DeviceId> gpus, bool everything);
  // A suspension, step by step; they take the lock of `progress`. One thread at a time changes it.
  /// Blocks: while there is another one.
  SuspensionHandle begin_suspension(const char* call, bool everything);
  /// No thread changes it any more, for now.
  void note_suspended();
  /// False if it has ended. Blocks: while another thread changes it.
  bool begin_resume(SuspensionHandle suspended);
  /// Everything goes on, and there is no suspension any more.
  void end_suspension();
  std::optional<DeviceId> last_suspended();
  TimePoint suspend_cost(DeviceId device);
  TimePoint resume_cost(DeviceId device);

  // The functions below require the lock of `progress`.
  void require_device(DeviceId device, const char* call) const;
  /// Whether a stream has work that can continue. Takes the lock of `progress`.
  bool has_work();
  SimContext& context(ContextHandle handle, const char* call);
  /// Handles 0 and 1 are the legacy stream, 2 is the calling thread's stream.
  SimStream& stream(BoundStream bound, const char* call);
  SimEvent& event(EventHandle handle, const char* call);
  SimExecGraph& exec_graph(ExecGraphHandle handle, const char* call);
  /// Throws unless it is a kernel of the context and its launch shape is supported.
  KernelWork kernel_work(const SimContext& context, KernelHandle kernel, LaunchShape shape,
                         const KernelArguments& arguments, const char* call) const;
  SimStream& make_stream(SimContext& context, StreamKind kind);
  SimContext& open_context(DeviceId device, bool primary);
  SimContext& open_own_context(DeviceId device);
  /// The device's primary context, opened if needed, retained once more.
  SimContext& retain_primary(DeviceId device);
  SimContext& open_green_context(SimContext& shared);
  /// Memory that the context takes on its GPU.
  std::uint64_t bytes_of(const SimContext& context) const;
  /// The context whose calls wait for each other's frees; see `wait_for_frees`.
  SimContext& freed_with(SimContext& context) const;
  void close_context(MutexLock& lock, SimContext& context);
  /// Blocks until the work that the other contexts of the device have enqueued so far has ended.
  /// During that time `wait_for_destroys` blocks.
  void await_others_of_device(MutexLock& lock, ContextHandle closing, const char* call);
  /// Blocks while any thread is destroying a context: a change of access rights waits for that, on
  /// every device.
  void wait_for_destroys(MutexLock& lock);
  /// Blocks while work is suspended: channels are neither created nor destroyed meanwhile.
  void wait_for_resume(MutexLock& lock);
  /// Blocks while the context's own channels are off.
  void await_channels(MutexLock& lock, ContextHandle of);
  /// Those of the GPU that the suspension takes off.
  std::vector<SimRunlist*> suspended_on(DeviceId device) VMART_REQUIRES(progress.mutex);
  /// Nothing of these contexts runs from here on. Blocks: for accesses in progress.
  void take_off(MutexLock& lock, std::span<SimRunlist* const> which) VMART_REQUIRES(progress.mutex);
  /// Those that are off go on.
  void put_back(std::span<SimRunlist* const> which) VMART_REQUIRES(progress.mutex);
  /// All that is off on the last GPU of the suspension goes on.
  void put_last_back() VMART_REQUIRES(progress.mutex);
  /// Blocks while another thread is inside `free_plain` in the context.
  void wait_for_frees(MutexLock& lock, SimContext& context);
  /// Returns the stream once no thread is inside `free_plain`.
  SimStream& stream_after_frees(MutexLock& lock, BoundStream bound, const char* call);
  void forbid_capture(SimContext& context, const char* call);
  /// Throws the driver's error if the stream captures, and invalidates the capture: nearly all
  /// calls are refused then. For the legacy stream, checks the blocking streams of its context.
  void forbid_capture(SimStream& stream, const char* call);
  /// Enqueues the work, or records it if the stream captures; returns null then.
  CompletionPtr submit(SimStream& stream, Work work, const char* call,
                       std::vector<CompletionPtr> dependencies = {});
  void reap(MutexLock& lock);

 private:
  void settle(MutexLock& lock, const CompletionPtr& completion);
  SimContext& add_context(DeviceId device, SimContext* shared, bool own = false);
  template <typename Visit>
  void for_each_stream_of(std::span<SimRunlist* const> which, Visit visit);
  int channels(DeviceId device) VMART_REQUIRES(progress.mutex);

  std::uint64_t last_handle_;
  std::uint64_t last_stream_id_ = 0;
};

/// The duration of one call. In stepped mode one part passes before its effect and the rest after
/// it, depending on the seed.
class CallTime {
 public:
  CallTime(SimMachine& machine, TimePoint cost);
  CallTime(SimMachine& machine, double cost_us) : CallTime(machine, from_microseconds(cost_us)) {}
  ~CallTime() { clock_.spend(after_); }
  CallTime(const CallTime&) = delete;
  CallTime& operator=(const CallTime&) = delete;

 private:
  SimClock& clock_;
  TimePoint after_{0};
};

}  // namespace vma
