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
///
/// A stream that runs a kernel or waits for a word holds one of the context's hardware queues; a
/// kernel starts only when a queue is free. Copies between places need no queue.
struct SimContext {
  ContextHandle handle{};
  DeviceId device{};
  bool primary = false;
  int references = 1;  ///< Counts retains of a primary context, and its green contexts.
  /// The primary context that a green context shares; null for other contexts.
  SimContext* shared = nullptr;
  std::vector<SimContext*> greens;  ///< Those that share this one.
  int free_queues = 0;
  /// Number of works enqueued so far, which is the latest one's number.
  std::uint64_t enqueued = 0;
  /// Threads inside `free_plain`. While there are any, launches and creations wait.
  int freeing = 0;
  /// Entry and PTX of kernels that were loaded once. Loading one of them again waits for nothing.
  std::set<std::pair<std::string, std::string>> code;
  /// All work enqueued from now on waits for these.
  std::vector<CompletionPtr> holds;
  TimePoint held_until{0};  ///< The end of the holds that have ended.
  VectorClock knows;        ///< What the ended holds knew. Used by the race detector.
  std::vector<SimStream*> streams;
  SimStream* legacy = nullptr;                    ///< Created on first use.
  std::map<std::uint64_t, SimStream*> of_thread;  ///< CU_STREAM_PER_THREAD, by thread.

  /// The holds that have not ended, including those of the shared context.
  std::vector<CompletionPtr> standing_holds();
  /// Ends once everything enqueued so far and all holds have ended, here and in green contexts.
  CompletionPtr everything();
  bool captures() const;
  /// Makes every capture of the context fail.
  void invalidate_captures();
};

}  // namespace vma
