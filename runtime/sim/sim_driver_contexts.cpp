// SimDriver's calls on contexts, the memory that lives in them, and suspensions of their work.
#include "driver/native_codes.hpp"
#include "sim/sim_driver.hpp"
#include "sim/sim_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <vector>

namespace vma {
namespace {

/// The calling thread's current context in the machine `serial`.
ContextHandle& current_of_thread(std::uint64_t serial) {
  thread_local std::unordered_map<std::uint64_t, ContextHandle> current;
  return current[serial];
}

}  // namespace

bool SimDriver::context_active(DeviceId device) {
  machine_->require_device(device, "cuDevicePrimaryCtxGetState");
  const MutexLock lock(machine_->progress.mutex);
  return machine_->primaries[static_cast<std::size_t>(index(device))] != nullptr;
}

ContextHandle SimDriver::retain_primary(DeviceId device) {
  constexpr auto call = "cuDevicePrimaryCtxRetain";
  machine_->require_device(device, call);
  const bool opens = !context_active(device);
  const CallTime time(*machine_, opens ? machine_->costs.parameters().open_context_us : 0.1);
  MutexLock lock(machine_->progress.mutex);
  if (opens) machine_->wait_for_resume(lock);
  machine_->progress.check_fault(call);
  return machine_->retain_primary(device).handle;
}

void SimDriver::release_primary(DeviceId device) {
  machine_->require_device(device, "cuDevicePrimaryCtxRelease");
  MutexLock lock(machine_->progress.mutex);
  SimContext* primary = machine_->primaries[static_cast<std::size_t>(index(device))];
  if (primary == nullptr) {
    throw driver_error(native_invalid_context, "cuDevicePrimaryCtxRelease",
                       fmt::format("device {} has no primary context", index(device)));
  }
  if (--primary->references != 0) return;
  machine_->wait_for_resume(lock);
  machine_->close_context(lock, *primary);
}

ContextHandle SimDriver::create_own_context(DeviceId device) {
  machine_->require_device(device, "cuCtxCreate");
  const CallTime time(*machine_, machine_->costs.parameters().open_context_us);
  const MutexLock lock(machine_->progress.mutex);
  machine_->progress.check_fault("cuCtxCreate");
  return machine_->open_own_context(device).handle;
}

ContextHandle SimDriver::create_context(DeviceId device) {
  machine_->require_device(device, "cuCtxCreate");
  const CallTime time(*machine_, machine_->costs.parameters().open_context_us);
  MutexLock lock(machine_->progress.mutex);
  machine_->wait_for_resume(lock);
  machine_->progress.check_fault("cuCtxCreate");
  return machine_->open_context(device, false).handle;
}

ContextHandle SimDriver::create_green_context(DeviceId device, int multiprocessors) {
  constexpr auto call = "cuGreenCtxCreate";
  machine_->require_device(device, call);
  const CostParameters& costs = machine_->costs.parameters();
  const double opening_us = context_active(device) ? 0 : costs.open_context_us;
  const CallTime time(*machine_, opening_us + costs.green_context_us);
  MutexLock lock(machine_->progress.mutex);
  machine_->progress.check_fault(call);
  const GpuDescription& gpu = machine_->description.gpus[static_cast<std::size_t>(index(device))];
  if (multiprocessors <= 0 || multiprocessors > gpu.multiprocessors) {
    throw driver_error(
        native_invalid_value, "cuDevSmResourceSplitByCount",
        fmt::format("{} of {} multiprocessors", multiprocessors, gpu.multiprocessors));
  }
  SimContext& primary = machine_->retain_primary(device);
  try {
    return machine_->open_green_context(primary).handle;
  } catch (...) {
    if (--primary.references == 0) machine_->close_context(lock, primary);
    throw;
  }
}

void SimDriver::destroy_context(ContextHandle context) {
  constexpr auto call = "cuCtxDestroy";
  MutexLock lock(machine_->progress.mutex);
  if (SimContext* shared = machine_->context(context, call).shared) {
    machine_->close_context(lock, machine_->context(context, call));
    if (--shared->references == 0) machine_->close_context(lock, *shared);
    return;
  }
  if (machine_->context(context, call).primary) {
    throw driver_error(native_invalid_context, call, "it is a primary context");
  }
  if (!machine_->context(context, call).own) machine_->wait_for_resume(lock);
  machine_->await_channels(lock, context);
  machine_->await_others_of_device(lock, context, call);
  machine_->close_context(lock, machine_->context(context, call));
}

ContextHandle SimDriver::current_context() {
  return current_of_thread(machine_->serial);
}

void SimDriver::set_current_context(ContextHandle context) {
  if (!is_none(context)) {
    const MutexLock lock(machine_->progress.mutex);
    machine_->context(context, "cuCtxSetCurrent");
  }
  current_of_thread(machine_->serial) = context;
}

std::uint64_t SimDriver::context_id(ContextHandle context) {
  const MutexLock lock(machine_->progress.mutex);
  return static_cast<std::uint64_t>(machine_->context(context, "cuCtxGetId").handle);
}

DeviceId SimDriver::context_device(ContextHandle context) {
  const MutexLock lock(machine_->progress.mutex);
  return machine_->context(context, "cuCtxGetDevice").device;
}

void SimDriver::synchronize_context(ContextHandle context) {
  constexpr auto call = "cuModuleUnload";
  const CallTime time(*machine_, machine_->costs.parameters().query_us);
  MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  machine_->progress.check_fault(call);
  machine_->progress.await(lock, everything_of(owner), never);
  machine_->progress.check_fault(call);
}

void SimDriver::record_context(ContextHandle context, EventHandle event) {
  constexpr auto call = "cuCtxRecordEvent";
  const CallTime time(*machine_, machine_->costs.parameters().hold_us);
  const MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  SimEvent& recorded = machine_->event(event, call);
  machine_->progress.check_fault(call);
  if (recorded.context != context) {
    throw driver_error(native_invalid_handle, call, "the event belongs to another context");
  }
  machine_->forbid_capture(owner, call);
  recorded.completion = everything_of(owner);
  if (Progress::is_done(*recorded.completion)) {
    recorded.completion->at = std::max(recorded.completion->at, machine_->clock.now());
  }
  recorded.capture.reset();
}

void SimDriver::hold_context(ContextHandle context, EventHandle event) {
  constexpr auto call = "cuCtxWaitEvent";
  const CallTime time(*machine_, machine_->costs.parameters().hold_us);
  const MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  const SimEvent& awaited = machine_->event(event, call);
  machine_->progress.check_fault(call);
  machine_->forbid_capture(owner, call);
  owner.holds.push_back(awaited.completion);
}

void* SimDriver::allocate_pinned(ContextHandle context, std::size_t size_bytes) {
  const CallTime time(*machine_, machine_->costs.create(host(0), size_bytes));
  {
    const MutexLock lock(machine_->progress.mutex);
    machine_->context(context, "cuMemHostAlloc");
    machine_->progress.check_fault("cuMemHostAlloc");
  }
  return machine_->memory.allocate_pinned(size_bytes);
}

void SimDriver::free_pinned(ContextHandle context, void* pointer) {
  {
    const MutexLock lock(machine_->progress.mutex);
    machine_->context(context, "cuMemFreeHost");
  }
  machine_->memory.free_pinned(pointer);
}

Address SimDriver::allocate_plain(ContextHandle context, std::size_t size_bytes) {
  constexpr auto call = "cuMemAlloc";
  const CallTime time(*machine_, machine_->costs.parameters().plain_allocate_us);
  DeviceId device;
  {
    MutexLock lock(machine_->progress.mutex);
    SimContext& owner = machine_->context(context, call);
    machine_->wait_for_frees(lock, owner);
    machine_->progress.check_fault(call);
    device = owner.device;
  }
  return machine_->memory.allocate_plain(device, size_bytes);
}

void SimDriver::free_plain(ContextHandle context, Address begin) {
  constexpr auto call = "cuMemFree";
  const CallTime time(*machine_, machine_->costs.parameters().plain_free_us);
  MutexLock lock(machine_->progress.mutex);
  SimContext& owner = machine_->context(context, call);
  machine_->progress.check_fault(call);
  machine_->memory.require_plain(owner.device, begin);
  // Blocks launches in the context until earlier work has ended.
  SimContext& freed = machine_->freed_with(owner);
  ++freed.freeing;
  machine_->progress.await(lock, everything_of(owner), never);
  --freed.freeing;
  machine_->progress.announce();
  machine_->progress.check_fault(call);
  machine_->memory.free_plain(owner.device, begin);
}

// --- Suspensions

/// Work that is off would be given up in the middle.
void SimMachine::await_channels(MutexLock& lock, ContextHandle of) {
  const auto on = [&]() VMART_NO_THREAD_ANALYSIS {
    const auto found = contexts.find(of);
    return found == contexts.end() || !found->second->runlist->off() || progress.fault() != 0;
  };
  if (on()) return;
  const Stopped stopped(clock);
  progress.changed.wait(lock, on);
}

SuspensionHandle SimMachine::begin_suspension(const char* call, bool everything) {
  MutexLock lock(progress.mutex);
  wait_for_resume(lock);
  progress.check_fault(call);
  suspension.changing = true;
  suspension.everything = everything;
  return suspension.handle = next_handle<SuspensionHandle>();
}

void SimMachine::note_suspended() {
  const MutexLock lock(progress.mutex);
  suspension.changing = false;
  progress.announce();
}

bool SimMachine::begin_resume(SuspensionHandle suspended) {
  MutexLock lock(progress.mutex);
  const auto ended = [&]() VMART_NO_THREAD_ANALYSIS { return suspension.handle != suspended; };
  progress.changed.wait(lock,
                        [&]() VMART_NO_THREAD_ANALYSIS { return ended() || !suspension.changing; });
  if (is_none(suspended) || ended()) return false;
  return suspension.changing = true;
}

void SimMachine::end_suspension() {
  const MutexLock lock(progress.mutex);
  while (!suspension.gpus.empty()) put_last_back();
  suspension = {};
  progress.announce();
}

std::optional<DeviceId> SimMachine::last_suspended() {
  const MutexLock lock(progress.mutex);
  if (suspension.gpus.empty()) return std::nullopt;
  return suspension.gpus.back();
}

TimePoint SimMachine::suspend_cost(DeviceId device) {
  const MutexLock lock(progress.mutex);
  const CostParameters& known = costs.parameters();
  return from_microseconds(known.suspend_us + known.suspend_channel_us * channels(device));
}

TimePoint SimMachine::resume_cost(DeviceId device) {
  const MutexLock lock(progress.mutex);
  const CostParameters& known = costs.parameters();
  return from_microseconds(known.resume_us + known.resume_channel_us * channels(device));
}

/// Those that a suspension takes off. All streams of a context share its hardware queues, and three
/// groups of channels for copies.
int SimMachine::channels(DeviceId device) {
  constexpr int for_copies = 3 * 4;
  const GpuDescription& gpu = description.gpus[static_cast<std::size_t>(index(device))];
  return static_cast<int>(suspended_on(device).size()) * (gpu.hardware_queues + for_copies);
}

std::vector<SimRunlist*> SimMachine::suspended_on(DeviceId device) {
  std::vector<SimRunlist*> found;
  for (const auto& [handle, context] : contexts) {
    const bool counts = context->device == device && suspension.concerns(*context);
    if (counts) found.push_back(&context->channels);
  }
  return found;
}

template <typename Visit>
void SimMachine::for_each_stream_of(std::span<SimRunlist* const> which, Visit visit) {
  const auto look = [&](const std::unique_ptr<SimStream>& stream) {
    if (std::ranges::find(which, stream->context().runlist) != which.end()) visit(*stream);
  };
  std::ranges::for_each(streams | std::views::values, look);
  std::ranges::for_each(retired, look);
}

void SimMachine::take_off(MutexLock& lock, std::span<SimRunlist* const> which) {
  for (SimRunlist* const runlist : which) runlist->take_off(clock.now());
  progress.announce();
  // Their contexts may be gone when the wait ends.
  progress.changed.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS {
    bool any = false;
    for_each_stream_of(which, [&](const SimStream& stream) { any = any || stream.accesses(); });
    return !any;
  });
  for_each_stream_of(which, [](SimStream& stream) { stream.was_suspended(); });
}

void SimMachine::put_back(std::span<SimRunlist* const> which) {
  std::vector<SimRunlist*> off;
  std::ranges::copy_if(which, std::back_inserter(off), &SimRunlist::off);
  for_each_stream_of(off, [](SimStream& stream) { stream.will_go_on(); });
  for (SimRunlist* const runlist : off) runlist->put_back(clock.now());
  progress.announce();
}

void SimMachine::put_last_back() {
  const DeviceId device = suspension.gpus.back();
  suspension.gpus.pop_back();
  put_back(suspended_on(device));
}

SuspensionHandle SimMachine::suspend(std::span<const DeviceId> gpus, bool everything) {
  constexpr auto call = "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS";
  for (const DeviceId gpu : gpus) require_device(gpu, call);
  if (gpus.empty()) throw driver_error(native_invalid_value, call, "no GPU");
  if (costs.parameters().suspend_us == 0) {
    throw driver_error(native_not_supported, call, "the machine file has no costs.suspend_us");
  }
  const SuspensionHandle handle = begin_suspension(call, everything);
  try {
    for (const DeviceId gpu : gpus) {
      const CallTime time(*this, suspend_cost(gpu));
      MutexLock lock(progress.mutex);
      suspension.gpus.push_back(gpu);
      take_off(lock, suspended_on(gpu));
    }
  } catch (...) {
    end_suspension();
    throw;
  }
  note_suspended();
  return handle;
}

SuspensionHandle SimDriver::suspend(std::span<const DeviceId> gpus) {
  return machine_->suspend(gpus, false);
}

SuspensionHandle SimDriver::suspend_everything(std::span<const DeviceId> gpus) {
  return machine_->suspend(gpus, true);
}

void SimDriver::resume(SuspensionHandle suspension) {
  if (!machine_->begin_resume(suspension)) return;
  try {
    while (const std::optional<DeviceId> gpu = machine_->last_suspended()) {
      const CallTime time(*machine_, machine_->resume_cost(*gpu));
      const MutexLock lock(machine_->progress.mutex);
      machine_->put_last_back();
    }
  } catch (...) {
    machine_->note_suspended();
    throw;
  }
  machine_->end_suspension();
}

void SimDriver::switch_channels(std::span<const ContextHandle> of, bool off) {
  const CostParameters& costs = machine_->costs.parameters();
  const CallTime time(*machine_, off ? costs.suspend_us : costs.resume_us);
  MutexLock lock(machine_->progress.mutex);
  std::vector<SimRunlist*> wanted;
  for (const ContextHandle handle : of) {
    const auto found = machine_->contexts.find(handle);
    if (found == machine_->contexts.end()) continue;
    SimRunlist* const runlist = found->second->runlist;
    // Green contexts share them.
    const bool named = std::ranges::find(wanted, runlist) != wanted.end();
    if (runlist->off() != off && !named) wanted.push_back(runlist);
  }
  if (off) {
    machine_->take_off(lock, wanted);
  } else {
    machine_->put_back(wanted);
  }
}

}  // namespace vma
