#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/ids.hpp"
#include "driver/driver.hpp"
#include "sim/progress.hpp"
#include "sim/work.hpp"
#include "sim/work_runner.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
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

/// A capture in progress, shared by the participating streams. Guarded by the lock of Progress.
///
/// The nodes are in the order of their capture, which is one of the orders that the dependencies
/// allow.
struct SimCapture {
  SimStream* origin = nullptr;
  CaptureMode mode = CaptureMode::global;
  bool invalid = false;
  std::uint64_t id = 0;
  WorkList nodes;
  /// Streams that joined through an event and whose latest work no other stream has waited for, and
  /// how much of that there is.
  std::map<SimStream*, int> unjoined;
};

/// A queue of work and the thread that runs it, in order. The lock of Progress guards everything
/// here, except while the thread runs work.
///
/// Work waits for its dependencies, then for a hardware queue if it uses the multiprocessors, and
/// then runs. A fault of the machine drops the remaining work.
/// One owner: one queue, its thread and the state of its head, all under one lock.
class SimStream final : public Waiter, private WorkPlace {
 public:
  SimStream(StreamHandle handle, std::uint64_t id, SimContext& context, StreamKind kind,
            Progress& progress, WorkRunner& runner);
  ~SimStream() override;

  /// Starts the thread. Requires: once.
  void start(Executor& executor);
  /// Ends the thread after the enqueued work, or at once if `drop`.
  void close(bool drop);
  /// Requires: closed. Blocks until the thread has ended.
  void join() { task_->join(); }
  bool ended() const noexcept { return ended_; }

  /// Enqueues work that starts after `dependencies`. Returns its end.
  CompletionPtr enqueue(Work work, std::vector<CompletionPtr> dependencies);
  void wake() noexcept override { wake_.notify_all(); }
  bool head_is_stuck(int depth) override;
  /// Whether it has work that can continue, even if that still waits for a CPU.
  bool has_work() { return !queue_.empty() && !head_is_stuck(0); }

  StreamHandle handle() const noexcept { return handle_; }
  std::uint64_t id() const noexcept { return id_; }
  SimContext& context() const noexcept { return context_; }
  StreamKind kind() const noexcept { return kind_; }
  const CompletionPtr& last() const noexcept { return last_; }
  /// Whether it is in the middle of an access: a suspension waits for its end.
  bool accesses() const noexcept { return accessing_; }
  /// Its GPU has been taken off it, after its last access: host threads know what it has done.
  void was_suspended();
  /// It goes on, and knows what host threads know.
  void will_go_on();
  std::string name() const;

  /// The capture that the stream takes part in.
  std::shared_ptr<SimCapture> capture;

 private:
  enum class Head { none, running, on_dependencies, on_queue, on_word, suspended };
  struct Operation {
    Work work;
    std::vector<CompletionPtr> dependencies;
    CompletionPtr completion;
    TimePoint submitted{0};
    std::uint64_t number = 0;  // Within the context.
    VectorClock knows;         // What the host knew when it enqueued the work.
  };

  void run();
  void run_head(MutexLock& lock);
  void finish_head(TimePoint at);
  bool wait_for_dependencies(MutexLock& lock, Operation& operation);
  bool take_queue(MutexLock& lock, const Operation& operation);
  bool claims_queue_before(std::uint64_t number) const;
  bool given_up() const;
  bool suspended() const noexcept { return context_.runlist->off(); }
  TimePoint stand(MutexLock& lock);
  bool wait_word(const std::uint64_t* word, std::uint64_t value) override;
  void wrote_word() override;
  void touches(const SimSegment& segment, std::uint64_t size_bytes, Touch touch) override;
  void begin_access() override;
  void end_access() noexcept override;
  TimePoint suspended_time() const noexcept override;
  template <typename Ready>
  void sleep_as(Head head, MutexLock& lock, Ready ready);

  const StreamHandle handle_;
  const std::uint64_t id_;
  SimContext& context_;
  const StreamKind kind_;
  Progress& progress_;
  WorkRunner& runner_;
  std::unique_ptr<Task> task_;

  Condition wake_;
  std::deque<Operation> queue_;
  CompletionPtr last_;  // Never null.
  TimePoint free_at_{0};
  Head head_ = Head::none;
  const std::uint64_t* word_ = nullptr;  // Set while on_word.
  std::uint64_t word_value_ = 0;
  std::uint64_t works_ = 0;  // Number of works begun; one that was suspended counts as two.
  VectorClock knows_;        // Everything before the running work, and that work.
  bool under_way_ = false;   // The head has begun, and not ended.
  bool has_queue_ = false;   // The head has a hardware queue.
  std::atomic<bool> accessing_{false};
  bool closing_ = false, dropping_ = false, ended_ = false;
};

/// Ends once everything enqueued so far and all holds of the context have ended, there and in green
/// contexts.
CompletionPtr everything_of(SimContext& context);

}  // namespace vma
