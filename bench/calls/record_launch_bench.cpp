// Cost of recording a launch that the program itself makes, of a kernel with six pointers into six
// allocations: `vma::record_launch` on the launching thread, alone and beside other threads. On
// GPUs, for both kinds of handles: the CUfunction of a module, and the CUkernel of a library, which
// cudart launches. Nothing is launched. Uses are drained outside the timed part.

#include "bench/harness/machine.hpp"
#include "bench/harness/samples.hpp"

#include "runtime/runtime_parts.hpp"

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t pointers = 6;
constexpr std::size_t launches_a_batch = 300;  // Six uses each: half of a thread's ring.

constexpr const char* entry = "six_pointers";
constexpr const char* ptx = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry six_pointers(.param .u64 a, .param .u64 b, .param .u64 c,
                             .param .u64 d, .param .u64 e, .param .u64 f)
{
  ret;
}
)";

template <typename... Arguments>
void cuda(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto call = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  if (call == nullptr) throw std::runtime_error(std::string("no ") + name);
  if (const int result = call(arguments...); result != 0) {
    throw std::runtime_error(std::string(name) + " returned " + std::to_string(result));
  }
}

enum class Handle { function, kernel };

/// Does what a thread that launches kernels has done before.
void make_current(ContextHandle context) {
  if (parts_of(shared_runtime()).driver->simulated()) return;
  cuda("cuCtxSetCurrent", reinterpret_cast<void*>(static_cast<std::uint64_t>(context)));
}

/// Retained until the process ends.
ContextHandle primary() {
  static const ContextHandle context =
      parts_of(shared_runtime()).driver->retain_primary(DeviceId{0});
  return context;
}

/// The kernel stays loaded until the process ends.
const void* load(Handle handle) {
  Driver& driver = *parts_of(shared_runtime()).driver;
  const ContextHandle context = primary();
  if (driver.simulated()) {
    const Kernel kernel{ptx, entry, [](DeviceView&, const KernelArguments&, LaunchShape) {}};
    const KernelHandle loaded = driver.load_kernel(context, kernel);
    return reinterpret_cast<const void*>(static_cast<std::uint64_t>(loaded));
  }
  make_current(context);
  void *owner = nullptr, *found = nullptr;
  if (handle == Handle::function) {
    cuda("cuModuleLoadData", &owner, static_cast<const void*>(ptx));
    cuda("cuModuleGetFunction", &found, owner, entry);
  } else {
    void** none = nullptr;
    cuda("cuLibraryLoadData", &owner, static_cast<const void*>(ptx), none, none, 0u, none, none,
         0u);
    cuda("cuLibraryGetKernel", &found, owner, entry);
  }
  return found;
}

const void* function_of(Handle handle) {
  static const std::array<const void*, 2> loaded{load(Handle::function), load(Handle::kernel)};
  return loaded[static_cast<std::size_t>(handle)];
}

/// Each points into an allocation of its own.
const std::array<void*, pointers>& six_pointers() {
  static const std::array<void*, pointers> made = [] {
    std::array<void*, pointers> addresses{};
    for (void*& address : addresses) {
      address = static_cast<std::byte*>(shared_runtime().alloc(1 << 20, gpu(0))) + 64;
    }
    return addresses;
  }();
  return made;
}

void record_launches(benchmark::State& state, Handle handle) {
  Runtime& runtime = shared_runtime();
  UseLog& log = *parts_of(runtime).uses;
  const void* const function = function_of(handle);
  std::array<void*, pointers> values = six_pointers();
  std::array<const void*, pointers> parameters{};
  for (std::size_t i = 0; i < pointers; ++i) parameters[i] = &values[i];
  std::vector<LoggedUse> uses;
  std::vector<std::chrono::nanoseconds> times;
  make_current(primary());
  runtime.record_launch(function, parameters.data(), gpu(0));
  for ([[maybe_unused]] auto iteration : state) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < launches_a_batch; ++i) {
      runtime.record_launch(function, parameters.data(), gpu(0));
    }
    times.push_back(watch.elapsed());
    if (state.thread_index() == 0) {
      const std::size_t most = static_cast<std::size_t>(state.threads()) * 2 * launches_a_batch;
      log.collect(uses, most * pointers);
      uses.clear();
    }
  }
  const auto median = static_cast<double>(median_of(times).count());
  state.counters["ns_per_launch"] =
      benchmark::Counter(median / launches_a_batch, benchmark::Counter::kAvgThreads);
}

void add(const std::string& name, Handle handle, int threads) {
  register_threads("record_launch/" + name + "/threads" + std::to_string(threads), threads, 500,
                   [=](benchmark::State& state) { record_launches(state, handle); });
}

void register_all() {
  const bool simulated = parts_of(shared_runtime()).driver->simulated();
  function_of(Handle::function);  // Loads the kernels on this thread, before anything is timed.
  six_pointers();
  for (const int threads : {1, 2}) {
    add("function", Handle::function, threads);
    if (!simulated) add("kernel", Handle::kernel, threads);
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
