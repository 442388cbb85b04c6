#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace vma {

/// Kernels that were loaded ahead to be unloaded, once each, by id of their context. To load one
/// waits for the context's work and may keep other threads from launching there until then; to
/// unload one only waits.
///
/// Thread-safe. The lock is not held while a kernel is loaded.
class SpareKernels {
 public:
  /// Kept of a context at most.
  static constexpr std::size_t kept_max = 8;
  /// A load that takes longer has waited for work, or for a compiler.
  static constexpr TimePoint quick = std::chrono::milliseconds(1);

  /// A kernel of the context: a spare one, else one that is loaded now. Where that load was quick,
  /// so that the context is at rest, more are loaded and kept, until one is slow or fails.
  /// Throws: what the first load throws.
  KernelHandle take(std::uint64_t context_id, const Clock& clock,
                    const std::function<KernelHandle()>& load);
  std::size_t count(std::uint64_t context_id) const;

 private:
  struct Kept {
    std::vector<KernelHandle> kernels;
    bool filling = false;  // By one thread, so that they do not become more than `kept_max`.
  };

  void fill(std::uint64_t context_id, const Clock& clock,
            const std::function<KernelHandle()>& load);
  bool keep(std::uint64_t context_id, KernelHandle kernel);

  mutable Mutex mutex_;
  std::map<std::uint64_t, Kept> kept_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
