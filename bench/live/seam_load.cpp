#include "bench/live/seam_load.hpp"

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "bench/harness/samples.hpp"
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
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> allocations{0}, synchronizes{0}, kernel_loads{0};
  Mutex mutex;
  std::exception_ptr error VMART_GUARDED_BY(mutex);
  ThreadedExecutor executor;
  std::vector<Stream> streams;  // Used only by the owner's thread, as is the next member.
  std::vector<std::unique_ptr<Task>> tasks;

  explicit State(Runtime& shared) : runtime(shared), driver(*parts_of(shared).driver) {}

  void spawn(const char* name, std::function<void()> step) {
    tasks.push_back(executor.spawn(name, [this, step = std::move(step)] {
      try {
        while (!stopping) step();
      } catch (const std::exception&) {
        const MutexLock lock(mutex);
        if (!error) error = std::current_exception();
      }
    }));
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

  void end() {
    stopping = true;
    for (const std::unique_ptr<Task>& task : tasks) task->join();
    tasks.clear();
    for (const Stream stream : streams) runtime.destroy_stream(stream);
    streams.clear();
  }
};

SeamLoad::SeamLoad(Runtime& runtime) : state_(std::make_unique<State>(runtime)) {
  State* const state = state_.get();
  for (const Location& at : runtime.locations()) {
    if (at.kind != Location::Kind::gpu) continue;
    state->streams.push_back(runtime.make_stream(at));
    const ContextHandle context =
        parts_of(runtime).machinery->launcher.bind(state->streams.back()).context;
    state->spawn("load_allocate", [state, context] { state->allocate(context); });
    state->spawn("load_sync", [state, context] {
      state->driver.synchronize_context(context);
      ++state->synchronizes;
    });
    state->spawn("load_kernels", [state, context] { state->load_kernel(context); });
  }
}

SeamLoad::~SeamLoad() {
  try {
    state_->end();
  } catch (const std::exception&) {  // The benchmark has already failed and reported why.
  }
}

void SeamLoad::stop() {
  state_->end();
  const MutexLock lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
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
