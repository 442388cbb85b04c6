#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/routing/router.hpp"
#include "lab/trace/trace_audit.hpp"
#include "lab/trace/trace_source.hpp"

#include <vma/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace vma {

/// A task of a closed loop with all its repetitions, or an access that belongs to none. Times are
/// in seconds from the first event.
struct LoopTask {
  double release_s = 0;  ///< It starts no earlier.
  double compute_s = 0;  ///< It takes no less.
  double least_s = 0;    ///< Nor less than this, with each access at its best place.
  double head_s = 0;     ///< A lower bound of its start.
  double tail_s = 0;     ///< A lower bound of the time from its end to the end of the trace.
  std::uint32_t device = 0;
  /// Tasks of one chain happen one after the other, in the order of their ranks.
  std::uint32_t chain = 0, rank = 0;
  double chain_begin_s = 0;  ///< The sum of `compute_s` of the earlier tasks of its chain.
  std::uint32_t first_access = 0, accesses = 0;
  std::uint32_t first_before = 0, befores = 0;
};

/// All accesses of a segment by one task's access, with all passes and repetitions.
struct LoopUse {
  std::uint32_t access = 0, task = 0;
  double read_bytes = 0, written_bytes = 0;
  double work_s = 0;  ///< The segment's share of the time that the access lasts at least.
  /// The access gets to the segment at least so often, after equal parts of its time.
  double visits = 1;
  bool ordered = false;  ///< It follows the previous such use of the segment.
};

/// An object of the trace. Its life is that of the trace's times.
struct LoopObject {
  std::uint64_t number = 0;
  double bytes = 0;
  double born_s = 0, freed_s = 0;
  std::optional<std::size_t> home;  ///< The place that the trace names.
};

/// A range of an object all of whose bytes are used alike.
struct LoopSegment {
  double bytes = 0;
  std::uint64_t begin_places = 0;  ///< One bit per place where it may begin at no cost.
  std::size_t object = 0;
  std::size_t first_use = 0, uses = 0;
};

/// A trace as a graph of tasks, without a schedule: what can be said about all its replays. Objects
/// are divided into segments instead of chunks, as if each byte could move alone. A plain value,
/// filled by `LoopGraphBuilder`.
struct LoopGraph {
  std::vector<LoopTask> tasks;  ///< Each after those that it waits for.
  std::vector<std::uint32_t> befores;
  std::vector<std::uint32_t> access_tasks;  ///< By access.
  std::vector<LoopUse> uses;                ///< By segment, then in the order of the tasks.
  std::vector<LoopSegment> segments;
  std::vector<LoopObject> objects;
  std::uint32_t chains = 0;

  std::span<const std::uint32_t> befores_of(const LoopTask& task) const {
    return std::span(befores).subspan(task.first_before, task.befores);
  }
  std::span<const LoopUse> uses_of(const LoopSegment& segment) const {
    return std::span(uses).subspan(segment.first_use, segment.uses);
  }
  /// Whether `later` surely starts after the end of `earlier`. May miss that, for distant tasks.
  bool follows(std::uint32_t later, std::uint32_t earlier) const;
  /// Assigns chains. Requires: tasks, with their predecessors. `requests` has the number of each
  /// task's request, 0 for none.
  void find_chains(std::span<const std::uint64_t> requests);
  /// Marks the uses of a segment that follow each other.
  void find_order(const LoopSegment& segment);
  /// Computes heads and tails. Requires: `least_s`.
  void find_ends();
};

/// Builds the `LoopGraph` of a trace on a machine, with the devices that a `Replay` would choose.
/// Not thread-safe; one object builds one graph.
/// One owner: each event changes objects, tasks and costs of the one graph together.
class LoopGraphBuilder {
 public:
  static constexpr std::size_t uses_max = 20'000'000;

  LoopGraphBuilder(const ReplayMachine& machine, const ReplayOptions& options,
                   std::unique_ptr<Router> router);

  /// Throws: as the source; Error{invalid_argument} for a trace without events, and for an event
  /// that contradicts earlier ones; Error{unsupported} if the router depends on the replay, or if
  /// there are more than `uses_max` uses.
  LoopGraph build(TraceSource& source);

 private:
  /// An access of an object.
  struct Range {
    std::uint64_t begin = 0, end = 0;
    double passes = 1;  // All; doubled for `read_write`.
    double written = 0;
    double visits = 1;
    std::uint32_t access = 0;
  };
  struct Object {
    std::uint64_t bytes = 0;
    std::uint64_t begin_places = 0;
    bool placed_again = false;  // The trace moves it during its life.
    std::size_t index = 0;      // Among the graph's objects.
    Time born{0};
    std::vector<Range> ranges;
  };

  void take(const TraceEvent& event);
  void allocate(const TraceEvent& event);
  void place_again(const TraceEvent& event);
  void declare(const TraceEvent& event);
  void close_declaration();
  void take_access(const TraceEvent& event);
  void add_access(const TraceEvent& event, std::uint32_t task, std::uint64_t repeat);
  void add_task(const TraceEvent& event, std::size_t device);
  std::size_t device_of_declared(const TraceEvent& task);
  double visits_of(const TraceEvent& access, std::uint64_t repeat) const;
  void end_object(std::uint64_t number);
  void cut(const Object& object);
  void add_segment(const Object& object, std::uint64_t begin, std::uint64_t end);
  void find_least();
  double seconds(Time time) const;
  void require_known_router(const TraceEvent& event) const;
  [[noreturn]] static void refuse(ErrorKind kind, const std::string& why);

  const ReplayMachine& machine_;
  const ReplayOptions options_;
  std::optional<ReadAhead> source_;
  TaskRouter router_;
  TraceAudit audit_;
  std::vector<DeviceLoad> loads_;
  std::optional<Time> begin_;
  Time now_{0};
  std::unordered_map<std::uint64_t, Object> live_;
  std::optional<TraceEvent> open_;  // The declaration in progress.
  std::vector<TraceEvent> open_accesses_;
  std::unordered_map<std::uint32_t, std::uint32_t> tasks_;  // Keyed by number.
  std::vector<std::uint64_t> requests_;                     // By task.
  double bytes_ = 0;                                        // Of all objects so far.
  LoopGraph graph_;
};

}  // namespace vma
