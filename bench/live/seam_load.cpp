#include "bench/live/seam_load.hpp"

#include "bench/harness/load_threads.hpp"
#include "bench/harness/machine.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t allocation_bytes[] = {mebibyte, 4 * mebibyte, 16 * mebibyte};

}  // namespace

struct SeamLoad::State {
  Runtime& runtime;
  Driver& driver;
  std::atomic<std::uint64_t> allocations{0}, synchronizes{0}, kernel_loads{0};
  std::vector<Stream> streams;  // Used only by the owner's thread.
  LoadThreads threads;

  explicit State(Runtime& shared) : runtime(shared), driver(*parts_of(shared).driver) {}

  void repeat(const char* name, std::function<void()> step) {
    threads.spawn(name, [this, step = std::move(step)] {
      while (!threads.stopping()) step();
    });
  }

  void allocate(ContextHandle context) {
    const std::uint64_t bytes = allocation_bytes[allocations % std::size(allocation_bytes)];
    driver.free_plain(context, driver.allocate_plain(context, bytes));
    ++allocations;
  }

  void load_kernel(ContextHandle context) {
    driver.unload_kernel(driver.load_kernel(context, spin_kernel()));
    ++kernel_loads;
  }
};

SeamLoad::SeamLoad(Runtime& runtime) : state_(std::make_unique<State>(runtime)) {
  State* const state = state_.get();
  for (const Place at : gpus_of(runtime)) {
    state->streams.push_back(runtime.make_stream(at));
    const ContextHandle context =
        parts_of(runtime).machinery->launcher.bind(state->streams.back()).context;
    state->repeat("load_allocate", [state, context] { state->allocate(context); });
    state->repeat("load_sync", [state, context] {
      state->driver.synchronize_context(context);
      ++state->synchronizes;
    });
    state->repeat("load_kernels", [state, context] { state->load_kernel(context); });
  }
}

SeamLoad::~SeamLoad() {
  try {
    stop();
  } catch (const std::exception&) {  // The benchmark has already failed and reported why.
  }
}

void SeamLoad::stop() {
  state_->threads.stop();
  for (const Stream stream : state_->streams) state_->runtime.destroy_stream(stream);
  state_->streams.clear();
}

std::uint64_t SeamLoad::allocations() const noexcept {
  return state_->allocations;
}
std::uint64_t SeamLoad::synchronizes() const noexcept {
  return state_->synchronizes;
}
std::uint64_t SeamLoad::kernel_loads() const noexcept {
  return state_->kernel_loads;
}

}  // namespace vma
