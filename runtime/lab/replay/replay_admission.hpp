#pragma once

#include "lab/replay/replay_memory.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/replay/replay_tasks.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma {

/// Decides which requests of a closed loop run, so that what they hold fits into memory. A request
/// that does not fit waits in a queue, in the order in which its first task could start. If a
/// running request needs more than there is, it waits, and with `Admission::preempt` the youngest
/// one gives up its memory as soon as its steps in progress have ended: it returns to the head of
/// the queue, and writes again what it had written before it goes on. This is what vLLM does (Kwon
/// et al., "Efficient memory management for large language model serving with PagedAttention", SOSP
/// 2023, section 4.5). The oldest request never gives up its memory, so each request ends.
///
/// A request owns the objects that it writes, until another request accesses them. Tasks without a
/// request always run. Not thread-safe.
class ReplayAdmission {
 public:
  using Task = ReplayTasks::Index;

  /// Requires: all references outlive it. `now` is the replay's time.
  ReplayAdmission(const ReplayOptions& options, std::size_t devices, ReplayMemory& memory,
                  ReplayTasks& tasks, const Time& now);

  /// Whether the steps can begin now. If not, it keeps the task, and `next` returns it later.
  bool admits(Task task, const ReplayTasks::Steps& steps, std::size_t device);
  /// Steps that it has admitted begin. Called before `ReplayTasks::began`.
  void began(Task task, const ReplayTasks::Steps& steps);

  struct Ready {
    Task task = ReplayTasks::none;
    std::size_t device = 0;
  };
  /// A kept task that can begin now, or one that writes again what a request has lost. Requires:
  /// all events of the trace until now have been taken, so that unfinished requests are known.
  std::optional<Ready> next();
  /// Nothing else can happen: lets one begin without regard to memory. Returns false if none waits.
  bool release();

  /// Adds what it knows about the requests.
  void complete(std::span<ReplayRequest> requests) const;

 private:
  /// What a request has written of a range.
  struct Written {
    TraceEvent access;
    double bytes = 0;
  };
  struct Request {
    std::uint64_t number = 0;
    std::size_t device = 0;
    bool running = false, queued = false;
    bool leaves = false;  // Gives up its memory when its steps have ended.
    bool lost = false;    // Has given it up, and has to write it again.
    std::vector<Task> kept, granted, started;
    bool has_begun = false;
    Time first_compute{0};          // Of a step of its first task,
    std::vector<TraceEvent> reads;  // which reads this,
    double first_written = 0;       // and writes so many bytes.
    std::vector<Written> written;
    std::uint64_t steps = 0;
    Time queued_at{0};
    ReplayDelays delays;
  };
  struct Growth {
    Request* request = nullptr;
    Task task = ReplayTasks::none;
  };
  /// The requests that share memory: those of a device, or all.
  struct Pool {
    std::deque<Request*> queue;
    std::vector<Request*> running;  // The oldest first.
    std::deque<Growth> growths;
    std::size_t granted = 0;  // Tasks that have yet to take their memory.
  };

  Pool& pool_of(const Request& request);
  Request& request_of(std::uint64_t number, std::size_t device);
  bool in_progress(const Request& request) const;
  bool holds(const Request& request) const;
  bool all_grow(const Pool& pool) const;
  bool fits(const Request& request, std::span<const Task> tasks, bool with_lost) const;
  void grant(Request& request, Task task);
  void enqueue(Request& request);
  bool advance(Pool& pool);
  bool advance_growth(Pool& pool, bool at_any_cost);
  bool advance_queue(Pool& pool, bool at_any_cost);
  void start(Request& request);
  Task write_again(Request& request, std::span<const Task> kept);
  Request* youngest(const Pool& pool) const;
  void preempt(Request& request);

  const ReplayOptions& options_;
  ReplayMemory& memory_;
  ReplayTasks& tasks_;
  const Time& now_;
  std::vector<Pool> pools_;
  std::unordered_map<std::uint64_t, Request> requests_;
  std::deque<Ready> ready_;
  std::size_t waiting_ = 0;                             // Kept tasks.
  bool changed_ = false;                                // Since the last look at what waits,
  std::uint64_t memory_changes_ = 0, tasks_ended_ = 0;  // as have these.
};

}  // namespace vma
