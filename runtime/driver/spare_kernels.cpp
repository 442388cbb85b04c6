#include "driver/spare_kernels.hpp"

#include <exception>

namespace vma {

KernelHandle SpareKernels::take(std::uint64_t context_id, const Clock& clock,
                                const std::function<KernelHandle()>& load) {
  {
    const MutexLock lock(mutex_);
    std::vector<KernelHandle>& kernels = kept_[context_id].kernels;
    kernels.reserve(kept_max);  // So that to keep one cannot fail.
    if (!kernels.empty()) {
      const KernelHandle kernel = kernels.back();
      kernels.pop_back();
      return kernel;
    }
  }
  const TimePoint start = clock.now();
  const KernelHandle kernel = load();
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
  try {
    bool more = true;
    while (more) {
      const TimePoint start = clock.now();
      const KernelHandle kernel = load();
      more = keep(context_id, kernel) && clock.now() - start <= quick;
    }
  } catch (const std::exception&) {  // The next wait loads its own, and throws what is wrong.
  }
  const MutexLock lock(mutex_);
  kept_[context_id].filling = false;
}

/// Whether there is room for another.
bool SpareKernels::keep(std::uint64_t context_id, KernelHandle kernel) {
  const MutexLock lock(mutex_);
  std::vector<KernelHandle>& kernels = kept_[context_id].kernels;
  kernels.push_back(kernel);
  return kernels.size() < kept_max;
}

}  // namespace vma
