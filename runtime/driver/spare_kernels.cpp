#include "driver/spare_kernels.hpp"

#include "base/process_exit.hpp"

#include <exception>

namespace vma {

SpareKernels& SpareKernels::of_process() {
  // Never destroyed, because other threads may still use it during exit.
  static Immortal<SpareKernels> kept;
  return *kept;
}

SpareKernels::Pause::Pause(SpareKernels& kernels, Clock& clock, std::chrono::nanoseconds limit)
    : kernels_(kernels), complete_(kernels.pause(clock, limit)) {}

SpareKernels::Pause::~Pause() {
  kernels_.resume();
}

bool SpareKernels::pause(Clock& clock, std::chrono::nanoseconds limit) {
  MutexLock lock(mutex_);
  ++pauses_;
  return changed_.wait_until(lock, clock, later(clock.now(), limit),
                             [this]() VMART_NO_THREAD_ANALYSIS { return loading_ == 0; });
}

void SpareKernels::resume() noexcept {
  const MutexLock lock(mutex_);
  --pauses_;
  changed_.notify_all();
}

KernelHandle SpareKernels::load_now(const std::function<KernelHandle()>& load) {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return pauses_ == 0; });
  ++loading_;
  lock.unlock();
  const auto loaded = [this] {
    const MutexLock again(mutex_);
    --loading_;
    changed_.notify_all();
  };
  try {
    const KernelHandle kernel = load();
    loaded();
    return kernel;
  } catch (...) {
    loaded();
    throw;
  }
}

KernelHandle SpareKernels::take_unkept(const std::function<KernelHandle()>& load) {
  return load_now(load);
}

KernelHandle SpareKernels::take(std::uint64_t context_id, const Clock& clock,
                                const std::function<KernelHandle()>& load) {
  {
    const MutexLock lock(mutex_);
    std::vector<KernelHandle>& kernels = kept_[context_id].kernels;
    kernels.reserve(kept_max);  // Ensures that `keep` cannot fail.
    if (!kernels.empty()) {
      const KernelHandle kernel = kernels.back();
      kernels.pop_back();
      return kernel;
    }
  }
  TimePoint start{0};  // Excludes the wait for a pause.
  const KernelHandle kernel = load_now([&] {
    start = clock.now();
    return load();
  });
  if (clock.now() - start <= quick) fill(context_id, clock, load);
  return kernel;
}

std::size_t SpareKernels::count(std::uint64_t context_id) const {
  const MutexLock lock(mutex_);
  const auto kept = kept_.find(context_id);
  return kept == kept_.end() ? 0 : kept->second.kernels.size();
}

void SpareKernels::fill(std::uint64_t context_id, const Clock& clock,
                        const std::function<KernelHandle()>& load) {
  {
    const MutexLock lock(mutex_);
    Kept& kept = kept_[context_id];
    if (kept.filling || kept.kernels.size() >= kept_max) return;
    kept.filling = true;
  }
  const auto wanted = [this] {
    const MutexLock lock(mutex_);
    // The calling thread already has its kernel, so it does not wait for a pause to end.
    return pauses_ == 0;
  };
  try {
    bool more = true;
    while (more && wanted()) {
      const TimePoint start = clock.now();
      const KernelHandle kernel = load_now(load);
      more = keep(context_id, kernel) && clock.now() - start <= quick;
    }
  } catch (const std::exception&) {  // The next caller loads its own kernel and gets the error.
  }
  const MutexLock lock(mutex_);
  kept_[context_id].filling = false;
}

/// Returns whether there is room for another one.
bool SpareKernels::keep(std::uint64_t context_id, KernelHandle kernel) {
  const MutexLock lock(mutex_);
  std::vector<KernelHandle>& kernels = kept_[context_id].kernels;
  kernels.push_back(kernel);
  return kernels.size() < kept_max;
}

}  // namespace vma
