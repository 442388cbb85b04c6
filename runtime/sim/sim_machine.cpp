#include "sim/sim_machine.hpp"

#include "base/check.hpp"
#include "base/environment.hpp"
#include "base/process_exit.hpp"
#include "base/thread_parts.hpp"
#include "base/units.hpp"
#include "driver/native_codes.hpp"
#include "sim/sim_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ranges>
#include <utility>

namespace vma {
namespace {

constexpr std::uint64_t default_budget_bytes = 8 * GiB;
constexpr int serial_shift = 40;
constexpr std::uint64_t chunk_handles = 1ull << 39;  // All other handles are smaller.

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::uint64_t budget_of(const SimOptions& options) {
  if (options.host_budget_bytes != 0) return options.host_budget_bytes;
  return environment_bytes("VMART_SIM_BYTES").value_or(default_budget_bytes);
}

/// As with libcuda, the driver of every machine is gone once the process exits; threads that still
/// run get an error.
std::atomic<bool> gone_with_process{false};

void go_with_process() {
  static const bool prepared = std::atexit([] { gone_with_process = true; }) == 0;
  static_cast<void>(prepared);
}

bool fits(const LaunchShape& shape) {
  const auto threads = static_cast<std::uint64_t>(shape.block.x) * shape.block.y * shape.block.z;
  return shape.grid.x > 0 && shape.grid.y > 0 && shape.grid.z > 0 && threads > 0 && threads <= 1024;
}

}  // namespace

SimMachine::SimMachine(MachineDescription machine, const SimOptions& sim_options)
    : description(std::move(machine)),
      options(sim_options),
      serial(next_serial()),
      executor(sim_options.stepped != nullptr ? static_cast<Executor&>(*sim_options.stepped)
                                              : threads),
      clock(sim_options.stepped, [this] { return has_work(); }),
      costs(description),
      store(budget_of(sim_options)),
      memory(description, costs, store, (serial << serial_shift) + chunk_handles, sim_options.seed),
      routes(description, costs),
      runner(memory, routes, clock, costs),
      progress(clock, sim_options.detect_races ? &races : nullptr),
      primaries(description.gpus.size(), nullptr),
      last_handle_((serial << serial_shift) + 0x1000) {
  go_with_process();
}

SimMachine::~SimMachine() {
  const auto end = [this] {
    MutexLock lock(progress.mutex);
    for (const auto& [handle, context] : contexts) {
      if (context->channels.off()) context->channels.put_back(clock.now());
    }
    for (auto& [handle, stream] : streams) retired.push_back(std::move(stream));
    streams.clear();
    for (const auto& stream : retired) stream->close(true);
    std::vector<std::unique_ptr<SimStream>> last = std::move(retired);
    lock.unlock();
    for (const auto& stream : last) stream->join();
  };
  // Streams of a stepped machine end only while its executor runs.
  if (options.stepped != nullptr && Stepper::current() != options.stepped) {
    options.stepped->run(end);
  } else {
    end();
  }
}

bool SimMachine::has_work() VMART_NO_THREAD_ANALYSIS {
  const MutexLock lock(progress.mutex);
  const auto works = [](const auto& stream) { return stream->has_work(); };
  return std::ranges::any_of(streams | std::views::values, works) ||
         std::ranges::any_of(retired, works);
}

void SimMachine::require_device(DeviceId device, const char* call) const {
  if (index(device) < 0 || static_cast<std::size_t>(index(device)) >= description.gpus.size()) {
    throw driver_error(native_invalid_device, call, fmt::format("device {}", index(device)));
  }
}

SimContext& SimMachine::context(ContextHandle handle, const char* call) {
  const auto found = contexts.find(handle);
  if (found == contexts.end()) {
    throw driver_error(native_invalid_context, call,
                       fmt::format("context {:#x}", static_cast<std::uint64_t>(handle)));
  }
  return *found->second;
}

SimStream& SimMachine::stream(BoundStream bound, const char* call) {
  const auto number = static_cast<std::uint64_t>(bound.handle);
  if (number <= 1) {
    SimContext& owner = context(bound.context, call);
    if (owner.legacy == nullptr) owner.legacy = &make_stream(owner, StreamKind::blocking);
    return *owner.legacy;
  }
  if (number == 2) {
    SimContext& owner = context(bound.context, call);
    SimStream*& own = owner.of_thread[thread_number()];
    if (own == nullptr) own = &make_stream(owner, StreamKind::blocking);
    return *own;
  }
  const auto found = streams.find(bound.handle);
  const bool foreign = found != streams.end() && !is_none(bound.context) &&
                       found->second->context().handle != bound.context;
  if (found == streams.end() || foreign) {
    throw driver_error(native_invalid_handle, call, fmt::format("stream {:#x}", number));
  }
  return *found->second;
}

SimEvent& SimMachine::event(EventHandle handle, const char* call) {
  const auto found = events.find(handle);
  if (found == events.end()) {
    throw driver_error(native_invalid_handle, call,
                       fmt::format("event {:#x}", static_cast<std::uint64_t>(handle)));
  }
  return found->second;
}

SimExecGraph& SimMachine::exec_graph(ExecGraphHandle handle, const char* call) {
  const auto found = exec_graphs.find(handle);
  if (found == exec_graphs.end()) {
    throw driver_error(native_invalid_value, call, "no such executable graph");
  }
  return found->second;
}

KernelWork SimMachine::kernel_work(const SimContext& owner, KernelHandle kernel, LaunchShape shape,
                                   const KernelArguments& arguments, const char* call) const {
  const auto found = kernels.find(kernel);
  if (found == kernels.end() || found->second->context != owner.handle) {
    throw driver_error(native_invalid_handle, call,
                       fmt::format("kernel {:#x} does not belong to the context",
                                   static_cast<std::uint64_t>(kernel)));
  }
  if (!fits(shape)) throw driver_error(native_invalid_value, call, "grid or block");
  return {found->second, shape, arguments};
}

void SimMachine::require_mapped(Address begin, std::uint64_t size_bytes, const char* call) const {
  bool pageable = false;
  if (!memory.covered(begin, size_bytes, pageable) || pageable) {
    throw driver_error(native_invalid_value, call,
                       fmt::format("{} bytes at {:#x} are not all mapped and granted", size_bytes,
                                   to_integer(begin)));
  }
}

void SimMachine::require_word(const WordOperation& operation, const char* call) const {
  if (to_integer(operation.word) % sizeof operation.value != 0) {
    throw driver_error(native_invalid_value, call,
                       fmt::format("word at {:#x} is not aligned", to_integer(operation.word)));
  }
  require_mapped(operation.word, sizeof operation.value, call);
}

SimStream& SimMachine::make_stream(SimContext& owner, StreamKind kind) {
  const auto handle = next_handle<StreamHandle>();
  auto made = std::make_unique<SimStream>(handle, ++last_stream_id_, owner, kind, progress, runner);
  SimStream& stream = *made;
  stream.start(executor);
  owner.streams.push_back(&stream);
  streams.emplace(handle, std::move(made));
  return stream;
}

/// Blocks until the work has ended or cannot continue by itself.
void SimMachine::settle(MutexLock& lock, const CompletionPtr& completion) {
  progress.changed.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS {
    return Progress::is_done(*completion) || progress.fault() != 0 ||
           Progress::is_stuck(*completion);
  });
}

std::uint64_t SimMachine::bytes_of(const SimContext& context) const {
  const CostParameters& known = costs.parameters();
  if (context.own) return known.own_context_bytes;
  return context.shared == nullptr ? known.context_bytes : known.green_context_bytes;
}

SimContext& SimMachine::add_context(DeviceId device, SimContext* shared, bool own) {
  auto opened = std::make_unique<SimContext>();
  opened->device = device;
  opened->shared = shared;
  opened->own = own;
  opened->runlist = shared == nullptr ? &opened->channels : shared->runlist;
  const bool gpu_is_off = std::ranges::find(suspension.gpus, device) != suspension.gpus.end();
  if (gpu_is_off && suspension.concerns(*opened)) opened->channels.take_off(clock.now());
  memory.take(device, bytes_of(*opened));
  opened->handle = next_handle<ContextHandle>();
  opened->free_queues = description.gpus[static_cast<std::size_t>(index(device))].hardware_queues;
  SimContext& result = *opened;
  contexts.emplace(result.handle, std::move(opened));
  return result;
}

SimContext& SimMachine::open_context(DeviceId device, bool primary) {
  SimContext& opened = add_context(device, nullptr);
  opened.primary = primary;
  return opened;
}

SimContext& SimMachine::open_own_context(DeviceId device) {
  return add_context(device, nullptr, true);
}

SimContext& SimMachine::retain_primary(DeviceId device) {
  SimContext*& primary = primaries[static_cast<std::size_t>(index(device))];
  if (primary == nullptr) {
    primary = &open_context(device, true);
  } else {
    ++primary->references;
  }
  return *primary;
}

SimContext& SimMachine::open_green_context(SimContext& shared) {
  SimContext& opened = add_context(shared.device, &shared);
  shared.greens.push_back(&opened);
  return opened;
}

void SimMachine::close_context(MutexLock& lock, SimContext& closing) VMART_NO_THREAD_ANALYSIS {
  settle(lock, everything_of(closing));
  std::erase_if(exec_graphs, [&](const auto& it) { return it.second.chain_of == closing.handle; });
  std::vector<std::unique_ptr<SimStream>> last;
  for (auto it = streams.begin(); it != streams.end();) {
    if (&it->second->context() == &closing) {
      last.push_back(std::move(it->second));
      it = streams.erase(it);
    } else {
      ++it;
    }
  }
  for (auto& stream : retired) {
    if (&stream->context() == &closing) last.push_back(std::move(stream));
  }
  std::erase(retired, nullptr);
  closing.streams.clear();
  for (const auto& stream : last) stream->close(true);
  // A resume finds it no more: its work, which is given up, ends now.
  if (closing.shared == nullptr && closing.channels.off()) closing.channels.put_back(clock.now());
  const auto found = contexts.find(closing.handle);
  const std::unique_ptr<SimContext> context = std::move(found->second);
  contexts.erase(found);
  std::erase_if(events, [&](const auto& it) { return it.second.context == context->handle; });
  std::erase_if(kernels, [&](const auto& it) { return it.second->context == context->handle; });
  if (context->primary) primaries[static_cast<std::size_t>(index(context->device))] = nullptr;
  if (context->shared != nullptr) std::erase(context->shared->greens, context.get());
  memory.give_back(context->device, bytes_of(*context));
  lock.unlock();
  for (const auto& stream : last) stream->join();
  last.clear();
  lock.lock();
}

void SimMachine::await_others_of_device(MutexLock& lock, ContextHandle closing,
                                        const char* call) VMART_NO_THREAD_ANALYSIS {
  const DeviceId device = context(closing, call).device;
  std::vector<CompletionPtr> running;
  for (const auto& [handle, other] : contexts) {
    if (other->device == device && handle != closing) running.push_back(everything_of(*other));
  }
  ++destroying;
  progress.await(lock, Progress::joined(std::move(running)), never);
  --destroying;
  progress.announce();
}

void SimMachine::wait_for_destroys(MutexLock& lock) {
  if (destroying == 0) return;
  const Stopped stopped(clock);
  progress.changed.wait(
      lock, [&]() VMART_NO_THREAD_ANALYSIS { return destroying == 0 || progress.fault() != 0; });
}

void SimMachine::wait_for_resume(MutexLock& lock) {
  if (is_none(suspension.handle)) return;
  const Stopped stopped(clock);
  progress.changed.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS {
    return is_none(suspension.handle) || progress.fault() != 0;
  });
}

SimStream& SimMachine::stream_after_frees(MutexLock& lock, BoundStream bound, const char* call) {
  wait_for_frees(lock, stream(bound, call).context());
  return stream(bound, call);  // The stream may have been destroyed meanwhile.
}

SimContext& SimMachine::freed_with(SimContext& owner) const {
  const bool apart = owner.shared == nullptr || options.green_contexts_are_apart;
  return apart ? owner : *owner.shared;
}

void SimMachine::wait_for_frees(MutexLock& lock, SimContext& owner) {
  const SimContext& freed = freed_with(owner);
  if (freed.freeing == 0) return;
  const Stopped stopped(clock);
  progress.changed.wait(
      lock, [&]() VMART_NO_THREAD_ANALYSIS { return freed.freeing == 0 || progress.fault() != 0; });
}

void SimMachine::forbid_capture(SimContext& owner, const char* call) {
  bool captures = false;
  for (SimStream* const stream : owner.streams) {
    if (stream->capture != nullptr) stream->capture->invalid = captures = true;
  }
  if (!captures) return;
  throw driver_error(native_stream_capture_unsupported, call, "a stream of the context captures");
}

void SimMachine::forbid_capture(SimStream& asked, const char* call) {
  const SimContext& owner = asked.context();
  if (owner.legacy == &asked) {
    for (const SimStream* other : owner.streams) {
      if (other->kind() != StreamKind::blocking || other->capture == nullptr) continue;
      other->capture->invalid = true;
      throw driver_error(native_stream_capture_implicit, call, "a blocking stream captures");
    }
  }
  if (asked.capture == nullptr) return;
  asked.capture->invalid = true;
  throw driver_error(native_stream_capture_unsupported, call, "the stream captures");
}

CompletionPtr SimMachine::submit(SimStream& stream, Work work, const char* call,
                                 std::vector<CompletionPtr> dependencies) VMART_NO_THREAD_ANALYSIS {
  progress.check_fault(call);
  SimContext& owner = stream.context();
  if (SimCapture* capture = stream.capture.get()) {
    if (capture->invalid) throw driver_error(native_stream_capture_invalidated, call);
    capture->nodes.works.push_back(std::move(work));
    if (capture->origin != &stream) ++capture->unjoined[&stream];
    return nullptr;
  }
  const auto after = [&](const SimStream* other) { dependencies.push_back(other->last()); };
  if (owner.legacy == &stream) {
    forbid_capture(stream, call);
    for (const SimStream* other : owner.streams) {
      if (other != &stream && other->kind() == StreamKind::blocking) after(other);
    }
  } else if (stream.kind() == StreamKind::blocking && owner.legacy != nullptr) {
    after(owner.legacy);
  }
  const auto holds = owner.standing_holds();
  dependencies.insert(dependencies.end(), holds.begin(), holds.end());
  return stream.enqueue(std::move(work), std::move(dependencies));
}

void SimMachine::reap(MutexLock& lock) VMART_NO_THREAD_ANALYSIS {
  std::vector<std::unique_ptr<SimStream>> ended;
  for (auto& stream : retired) {
    if (!stream->ended()) continue;
    std::erase(stream->context().streams, stream.get());
    ended.push_back(std::move(stream));
  }
  std::erase(retired, nullptr);
  lock.unlock();
  for (const auto& stream : ended) stream->join();
  ended.clear();
  lock.lock();
}

CallTime::CallTime(SimMachine& machine, TimePoint cost) : clock_(machine.clock) {
  if (ProcessExit::closed()) {
    ProcessExit::hold_back();
    throw driver_error(native_deinitialized, "SimDriver", "the process exits");
  }
  if (gone_with_process) throw driver_error(native_deinitialized, "SimDriver");
  TimePoint before = cost;
  if (SteppedThreads* stepped = machine.options.stepped) {
    before = cost * static_cast<int>(stepped->random() % 5) / 4;
    after_ = cost - before;
  }
  clock_.spend(before);
}

}  // namespace vma
