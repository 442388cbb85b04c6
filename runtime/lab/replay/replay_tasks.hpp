#pragma once

#include "lab/replay/replay_report.hpp"
#include "lab/trace/trace_event.hpp"

#include <vma/snapshot.hpp>

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace vma {

/// The declared tasks of a closed loop: which wait for which, and what can happen next. It knows
/// neither devices nor memory: the replay carries out what is due and says when accesses end. Steps
/// of a repeated task that are shorter than `steps_span` are done several at once, as one access of
/// each kind. Not thread-safe.
class ReplayTasks {
 public:
  using Index = std::uint32_t;
  static constexpr Index none = UINT32_MAX;

  explicit ReplayTasks(Time steps_span) : steps_span_(steps_span) {}

  // --- The trace, event by event
  /// Requires: the event declares a task. Returns false if its number was declared before.
  bool declare(const TraceEvent& event, Time now);
  /// Whether the event is an `after`, an access or a hint of the declaration in progress.
  bool belongs(const TraceEvent& event) const;
  /// Requires: it belongs there, and the predecessor of an `after` was declared.
  void add(const TraceEvent& event);
  /// The declaration in progress, if any, is complete. Returns its task, or `none`.
  Index close();
  /// Whether an allocation, free, mark or hint waits for a task, or a free for the tasks declared
  /// before it that use the object; if so, it is due later.
  bool defer(const TraceEvent& event);
  /// The declared task with this number, if any.
  std::optional<Index> find(std::uint32_t number) const {
    const auto found = numbers_.find(number);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Whether the number was declared.
  bool knows(std::uint32_t number) const { return numbers_.contains(number); }

  // --- What happens
  /// The next steps of a task. All their accesses begin together.
  struct Steps {
    std::span<const TraceEvent> accesses;
    std::uint64_t count = 1;  ///< Steps at once.
    Time duration{0};         ///< Of all of them.
    TracePlace at;            ///< As declared.
    std::uint64_t request = 0;
    std::uint64_t repeat = 1;           ///< Steps of the whole task.
    Time lasts{0};                      ///< How long all of them compute.
    bool again = false;                 ///< Of a task of `declare_again`.
    std::span<const TraceEvent> hints;  ///< Given when they begin: with the first ones.
  };
  /// A task whose next steps can begin, or an event that can happen.
  using Due = std::variant<Index, TraceEvent>;
  /// Returns what can happen now, in the order in which it became possible, and forgets it.
  std::vector<Due> take_due() { return std::exchange(due_, {}); }
  bool has_due() const noexcept { return !due_.empty(); }
  /// Steps that are due.
  Steps steps(Index task) const;
  /// So many of their accesses have begun. The steps end when these have ended and the duration has
  /// passed.
  void began(Index task, std::size_t accesses, Time now);
  /// One of the accesses has ended.
  void access_ended(Index task, Time now);
  /// When to call `pass`; `Time::max()`: never.
  Time next() const { return timers_.empty() ? Time::max() : timers_.top().first; }
  void pass(Time now);

  /// Whether a task has not ended.
  std::size_t size() const noexcept { return tasks_.size(); }
  bool busy() const noexcept { return ended_ < tasks_.size(); }
  std::size_t ended() const noexcept { return ended_; }
  /// Whether steps of the task have begun and not ended.
  bool in_progress(Index task) const { return tasks_[task].running > 0; }
  /// Declared tasks of the request that have not ended.
  std::size_t unfinished(std::uint64_t request) const {
    const auto found = unfinished_.find(request);
    return found == unfinished_.end() ? 0 : found->second;
  }
  /// A task that is not in the trace: a request does its earlier work again. It can begin at once,
  /// and is not due. `before`, tasks that are due, become due again when it has ended.
  Index declare_again(const TraceEvent& declared, std::span<const TraceEvent> accesses,
                      std::span<const Index> before);
  /// When the last task ended; `Time::min()`: none has.
  Time last_end() const noexcept { return last_end_; }

  /// In the order in which their first tasks ended.
  std::vector<ReplayRequest> take_requests() { return std::move(requests_); }

 private:
  struct Task {
    TraceEvent declared;
    std::uint64_t left = 0;   // Steps that have not begun.
    std::size_t waits = 0;    // Predecessors that have not ended.
    std::size_t running = 0;  // Accesses, and a timer.
    Time began = Time::min();
    Time ready = Time::min();  // When all predecessors had ended.
    bool ended = false, again = false;
    std::vector<TraceEvent> accesses, hints;
    std::vector<Index> next;        // Tasks that wait for it.
    std::vector<TraceEvent> after;  // Events that wait for it.
  };
  using Timer = std::pair<Time, Index>;

  std::uint64_t steps_at_once(const Task& task) const;
  void step_ended(Index index, Time now);
  void end(Index index, Time now);
  void uses_ended(const Task& task);
  void note_request(const Task& task, Time now);

  const Time steps_span_;
  std::deque<Task> tasks_;  // In the order of their declaration.
  boost::unordered_flat_map<std::uint32_t, Index> numbers_;
  /// An object that tasks in the graph access.
  struct Uses {
    std::size_t accesses = 0;  // Of tasks that have not ended.
    std::optional<TraceEvent> free;
  };
  boost::unordered_flat_map<std::uint64_t, Uses> uses_;
  std::size_t ended_ = 0;
  Time last_end_ = Time::min();
  Index open_ = none;  // The task whose declaration is in progress.
  std::vector<Due> due_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<ReplayRequest> requests_;
  boost::unordered_flat_map<std::uint64_t, std::size_t> by_request_;
  boost::unordered_flat_map<std::uint64_t, std::size_t> unfinished_;  // Tasks, by request.
};

}  // namespace vma
