#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/copying/copy_engine.hpp"
#include "migrate/copying/live_copier.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace vma {

/// The live copiers of one runtime, two a GPU at most: one in the application's context, which is
/// kept alive meanwhile, and one in a context of the runtime's own. Each is made when a move first
/// needs it, and lasts. Any thread.
class LiveCopiers {
 public:
  LiveCopiers(Memory& memory, CopyEngine& engine, const LiveTuning& tuning);
  /// Requires: nobody uses a copier any more.
  ~LiveCopiers();
  LiveCopiers(const LiveCopiers&) = delete;
  LiveCopiers& operator=(const LiveCopiers&) = delete;

  /// Makes what live copies off the GPU need, at the first of them. `own`: in a context of the
  /// runtime's own, which the route to `to` has. Blocks: kernels are loaded. Requires: the caller
  /// holds no turn.
  LiveCopier& get(DeviceId device, Location to, bool own);
  /// The context of the application on the GPU, which is retained; none if that is not active.
  /// Requires: as `get`.
  ContextHandle application_context(DeviceId device);
  /// What each copier takes of its GPU's memory.
  std::uint64_t table_bytes() const;

 private:
  Memory& memory_;
  CopyEngine& engine_;
  const LiveTuning tuning_;
  Mutex mutex_;  // Held while one is made; taken before the turn for slow calls.
  std::map<DeviceId, ContextHandle> applications_ VMART_GUARDED_BY(mutex_);  // Retained.
  std::map<std::pair<DeviceId, bool>, std::unique_ptr<LiveCopier>> copiers_
      VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
