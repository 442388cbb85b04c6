#include "simcuda/library.hpp"

#include "base/clock.hpp"
#include "base/environment.hpp"
#include "base/mutex.hpp"
#include "driver/native_codes.hpp"
#include "machine/machine_file.hpp"
#include "simcuda/kernel_table.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

namespace vma {
namespace {

// Pages as large as those of real GPUs; costs of a machine that needs no time.
constexpr const char* small_machine = R"json({
  "name": "test-two-gpus",
  "source": "Invented, for programs that test what they do and not how fast.",
  "sources": "made up",
  "granularity_bytes": 2097152,
  "host_nodes": [{"memory_mib": 8192}],
  "gpus": [{
    "count": 2, "name": "Simulated GPU", "memory_mib": 4096, "multiprocessors": 32,
    "compute_capability": 90, "copy_engines": 2, "hardware_queues": 8, "host_node": 0,
    "local_gb_s": 100
  }],
  "peer_link": {"kind": "nvlink", "gb_s": 20, "native_atomics": true},
  "host_link": {"to_gpu_gb_s": 5, "from_gpu_gb_s": 5},
  "costs": {
    "create": {"sizes_mib": [1], "gpus": [1], "us": [[1]], "floor_us": 0},
    "release": {"sizes_mib": [1], "gpus": [1], "us": [[2]], "floor_us": 0},
    "unmap": {"sizes_mib": [1], "gpus": [1], "us": [[2]], "floor_us": 0},
    "grant_cold": {"sizes_mib": [1], "gpus": [1], "us": [[10]], "floor_us": 0},
    "grant_first": {"sizes_mib": [1], "gpus": [1], "us": [[4]], "floor_us": 0},
    "grant_later": {"sizes_mib": [1], "gpus": [1], "us": [[2]], "floor_us": 0},
    "grant_shadow": {"sizes_mib": [1], "gpus": [1], "us": [[2]], "floor_us": 0},
    "reserve_us": 1, "unreserve_us": 1, "map_us": 1, "launch_us": 1, "record_us": 0.2,
    "batch_us": 0.5, "wait_us": 0.5, "query_us": 0.2, "enqueue_us": 1, "hold_us": 1,
    "create_event_us": 1, "create_stream_us": 2, "open_context_us": 10, "green_context_us": 2,
    "suspend_us": 2, "suspend_channel_us": 0.1, "resume_us": 1, "resume_channel_us": 0.1,
    "load_kernel_us": 5, "kernel_us": 5, "copy_latency_us": 1, "host_copy_gb_s": 10
  }
})json";

std::atomic<SimDriver*> opened{nullptr};
std::atomic<bool> forked = false;  // A child of a process that uses the driver has none.

/// A file in the folder in which an installed library finds machines.
std::string machines_beside() {
  return library_folder() + "/machines/any.json";
}

SimDriver* make_sim() {
  const char* name = environment_variable("SIMCUDA_MACHINE");
  const bool named = name != nullptr && *name != '\0';
  MachineDescription machine = named ? load_machine(find_machine_file(name, machines_beside()))
                                     : parse_machine(small_machine, "test-two-gpus.json");
  if (const char* queues = environment_variable("CUDA_DEVICE_MAX_CONNECTIONS")) {
    for (GpuDescription& gpu : machine.gpus) {
      gpu.hardware_queues = std::clamp(std::atoi(queues), 1, 32);
    }
  }
  return new SimDriver(machine);
}

/// The machine's GPUs that the program sees, in its order. As in the driver, the first entry of the
/// list that names none ends it.
const std::vector<DeviceId>& visible() {
  static const std::vector<DeviceId>& devices = *new std::vector<DeviceId>([] {
    std::vector<DeviceId> listed;
    const char* list = environment_variable("CUDA_VISIBLE_DEVICES");
    const int all = sim().device_count();
    for (int each = 0; list == nullptr && each < all; ++each) listed.push_back(DeviceId{each});
    while (list != nullptr) {
      char* end = nullptr;
      const long number = std::strtol(list, &end, 10);
      if (end == list || number < 0 || number >= all) break;
      listed.push_back(DeviceId{static_cast<int>(number)});
      list = *end == ',' ? end + 1 : nullptr;
    }
    return listed;
  }());
  return devices;
}

std::vector<ContextHandle>& stack() {
  thread_local std::vector<ContextHandle> contexts;
  return contexts;
}

/// The simulator keeps a copy of the top, which its calls on built-in streams use.
void tell_top() {
  try {
    sim().set_current_context(top_context());
  } catch (const Error&) {  // It was destroyed while it lay in the stack; its calls are refused.
    sim().set_current_context({});
  }
}

/// Contexts that have been current, and whether each is active.
struct LateContexts {
  const bool wanted = environment_variable("SIMCUDA_LATE_CONTEXTS") != nullptr;
  Mutex mutex;
  std::map<ContextHandle, bool> active VMART_GUARDED_BY(mutex);
};

LateContexts& late_contexts() {
  static LateContexts& contexts = *new LateContexts();
  return contexts;
}

}  // namespace

CUresult code_of(const Error& error) noexcept {
  if (error.native() != 0) return static_cast<CUresult>(error.native());
  switch (error.kind()) {
    case ErrorKind::invalid_argument: return CUDA_ERROR_INVALID_VALUE;
    case ErrorKind::out_of_memory: return CUDA_ERROR_OUT_OF_MEMORY;
    case ErrorKind::unsupported: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_UNKNOWN;
  }
}

SimDriver& sim() {
  SimDriver* const driver = opened.load(std::memory_order_acquire);
  if (driver == nullptr || forked) refuse(CUDA_ERROR_NOT_INITIALIZED);
  return *driver;
}

const std::string& library_folder() {
  static const std::string& folder = *new std::string([] {
    Dl_info self{};
    std::error_code ignored;
    if (dladdr(reinterpret_cast<void*>(&library_folder), &self) == 0) return std::string();
    return std::filesystem::weakly_canonical(self.dli_fname, ignored).parent_path().string();
  }());
  return folder;
}

namespace {

/// The loader may know the library by a path that holds only until the program changes its folder.
[[gnu::constructor]] void find_folder() {
  library_folder();
}

}  // namespace

void open_sim() {
  static Mutex mutex;
  if (forked) refuse(CUDA_ERROR_NOT_INITIALIZED);
  const MutexLock lock(mutex);
  if (opened.load() != nullptr) return;
  try {
    load_kernel_libraries();
    opened.store(make_sim(), std::memory_order_release);
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
  } catch (const Error& error) {
    std::fprintf(stderr, "simcuda: %s\n", error.what());
    refuse(CUDA_ERROR_NO_DEVICE);
  }
}

int visible_devices() {
  return static_cast<int>(visible().size());
}

DeviceId device_of(CUdevice device) {
  if (device < 0 || device >= visible_devices()) refuse(CUDA_ERROR_INVALID_DEVICE);
  return visible()[static_cast<std::size_t>(device)];
}

CUdevice ordinal_of(DeviceId device) {
  const auto found = std::ranges::find(visible(), device);
  return found == visible().end() ? -1 : static_cast<CUdevice>(found - visible().begin());
}

ContextHandle top_context() noexcept {
  return stack().empty() ? ContextHandle{} : stack().back();
}

ContextHandle current_context() {
  sim();
  const ContextHandle top = top_context();
  if (is_none(top)) refuse(CUDA_ERROR_INVALID_CONTEXT);
  return top;
}

void push_context(ContextHandle context) {
  if (is_none(context)) refuse(CUDA_ERROR_INVALID_CONTEXT);
  sim().set_current_context(context);
  stack().push_back(context);
}

ContextHandle pop_context() {
  const ContextHandle top = current_context();
  stack().pop_back();
  tell_top();
  return top;
}

void set_context(ContextHandle context) {
  sim().set_current_context(context);
  LateContexts& late = late_contexts();
  if (late.wanted && !is_none(context)) {
    const MutexLock lock(late.mutex);
    late.active.emplace(context, false);
  }
  if (!stack().empty()) stack().pop_back();
  if (!is_none(context)) stack().push_back(context);
  tell_top();
}

void note_retained(ContextHandle context) {
  LateContexts& late = late_contexts();
  const MutexLock lock(late.mutex);
  const auto known = late.active.find(context);
  if (known != late.active.end()) known->second = true;
}

void require_active(ContextHandle context) {
  LateContexts& late = late_contexts();
  if (!late.wanted) return;
  const MutexLock lock(late.mutex);
  const auto known = late.active.find(context);
  if (known != late.active.end() && !known->second) refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

void require_working(ContextHandle context) {
  sim().destroy_event(sim().create_event(context));
}

BoundStream stream_of(CUstream stream) {
  auto number = reinterpret_cast<std::uintptr_t>(stream);
  if (number == 0 && PerThreadStreams::chosen()) {
    number = reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
  }
  const bool built_in = number <= reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
  return {built_in ? current_context() : ContextHandle{}, StreamHandle{number}};
}

void pass_time() {
  static std::atomic<TimePoint::rep> counted{SteadyClock().now().count()};
  const TimePoint::rep now = SteadyClock().now().count();
  const TimePoint::rep before = counted.exchange(now);
  if (now <= before) return;  // Another thread was later.
  // On a busy computer a thread may stand still for long, which takes no time of the machine.
  constexpr TimePoint longest = std::chrono::milliseconds(1);
  Clock& clock = sim().clock();
  clock.reached(clock.now() + std::min(TimePoint(now - before), longest));
}

void finish(BoundStream stream) {
  const bool legacy = static_cast<std::uintptr_t>(stream.handle) <=
                      reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY);
  if (legacy) {
    // The marker waits for the blocking streams, as all work of a legacy stream does.
    const EventHandle done = sim().create_event(stream.context);
    try {
      sim().stream_wait_event(stream, done);
    } catch (...) {
      sim().destroy_event(done);
      throw;
    }
    sim().destroy_event(done);
  }
  sim().wait_stream(stream, never);
}

}  // namespace vma
