#pragma once

#include "base/executor.hpp"
#include "base/ids.hpp"
#include "driver/driver.hpp"
#include "sim/progress.hpp"
#include "sim/sim_capture.hpp"
#include "sim/sim_context.hpp"
#include "sim/work.hpp"
#include "sim/work_runner.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// A queue of work and the thread that runs it, in order. The lock of Progress guards everything
/// here, except while the thread runs work.
///
/// Work waits for its dependencies, then for a hardware queue if it uses the multiprocessors, and
/// then runs. A fault of the machine drops the remaining work.
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
