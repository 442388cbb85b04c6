#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/copying/copy_engine.hpp"
#include "migrate/copying/live_copier.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace vma {

/// The live copiers of one runtime, one a GPU, in the runtime's own context there. Each is created
/// when a move first needs it, and kept. Any thread.
class LiveCopiers {
 public:
  LiveCopiers(Memory& memory, CopyEngine& engine, const LiveTuning& tuning);
  /// Requires: no copier is in use any more.
  ~LiveCopiers();
  LiveCopiers(const LiveCopiers&) = delete;
  LiveCopiers& operator=(const LiveCopiers&) = delete;

  /// Creates, on first use, what live copies off the GPU need, and the context. Blocks: loads
  /// kernels. Requires: the caller holds no turn.
  LiveCopier& get(DeviceId device);
  /// How much of its GPU's memory each copier takes.
  std::uint64_t table_bytes() const;

 private:
  Memory& memory_;
  CopyEngine& engine_;
  const LiveTuning tuning_;
  Mutex mutex_;  // Held while one is created; taken before the turn for slow calls.
  std::map<DeviceId, std::unique_ptr<LiveCopier>> copiers_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
