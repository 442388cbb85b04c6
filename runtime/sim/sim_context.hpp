#pragma once

#include "base/ids.hpp"
#include "sim/progress.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vma {

class SimStream;

/// One context of a simulated device. Guarded by the lock of Progress.
///
/// A stream that runs a kernel, or waits for a word, holds one of the context's hardware queues;
/// without a free one no kernel starts. Copies between places need none.
struct SimContext {
  ContextHandle handle{};
  DeviceId device{};
  bool primary = false;
  int references = 1;  ///< Of a primary context.
  int free_queues = 0;
  std::uint64_t enqueued = 0;  ///< Works so far, which numbers them.
  /// Threads inside `free_plain`: while there are any, launches and creations wait.
  int freeing = 0;
  /// Entry and PTX of kernels loaded once: loading them again waits for nothing.
  std::set<std::pair<std::string, std::string>> code;
  /// What all work enqueued from now on waits for.
  std::vector<CompletionPtr> holds;
  TimePoint held_until{0};  ///< The end of the holds that have ended.
  VectorClock knows;        ///< What the ended holds knew; for the race detector.
  std::vector<SimStream*> streams;
  SimStream* legacy = nullptr;                    ///< Created at first use.
  std::map<std::uint64_t, SimStream*> of_thread;  ///< CU_STREAM_PER_THREAD, by thread.

  /// The holds that have not ended.
  const std::vector<CompletionPtr>& standing_holds();
  /// Ends once everything enqueued so far has, and the holds.
  CompletionPtr everything();
  bool captures() const;
  /// Makes every capture of the context fail.
  void invalidate_captures();
};

}  // namespace vma
