#pragma once

#include "base/clock.hpp"
#include "base/ids.hpp"
#include "sim/progress.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vma {

class SimStream;

/// Whether the work of a context runs, or is suspended. Changed under the lock of Progress, read by
/// any thread.
class SimRunlist {
 public:
  bool off() const noexcept { return off_; }
  /// How long the work has been off the GPU by now, in all.
  TimePoint off_time(TimePoint now) const noexcept {
    for (;;) {
      const std::uint32_t seen = changes_;
      const TimePoint before(off_time_.load()), since(off_since_.load());
      const TimePoint time = off_ ? before + (now - since) : before;
      if (seen % 2 == 0 && changes_ == seen) return time;
    }
  }

  void take_off(TimePoint now) noexcept {
    ++changes_;
    off_since_ = now.count();
    off_ = true;
    ++changes_;
  }
  void put_back(TimePoint now) noexcept {
    const TimePoint time = off_time(now);
    ++changes_;
    off_time_ = time.count();
    off_ = false;
    ++changes_;
  }

 private:
  std::atomic<std::uint32_t> changes_{0};  // Odd within one.
  std::atomic<bool> off_{false};
  std::atomic<TimePoint::rep> off_since_{0}, off_time_{0};
};

/// One context of a simulated device. Guarded by the lock of Progress.
///
/// A stream that runs a kernel or waits for a word holds one of the context's hardware queues; a
/// kernel starts only when a queue is free. Copies between places need no queue.
struct SimContext {
  ContextHandle handle{};
  DeviceId device{};
  bool primary = false;
  SimRunlist channels;            ///< Unused in a green context.
  SimRunlist* runlist = nullptr;  ///< `channels`, or those of the shared context.
  bool own = false;               ///< Goes on while the program is suspended.
  int references = 1;             ///< Counts retains of a primary context, and its green contexts.
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
};

}  // namespace vma
