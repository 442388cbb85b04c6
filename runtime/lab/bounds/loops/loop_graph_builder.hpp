#pragma once

#include "lab/bounds/loops/loop_graph.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/routing/read_ahead.hpp"
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

/// Builds the `LoopGraph` of a trace on a machine, with the devices that a `Replay` would choose.
/// Not thread-safe; one object builds one graph.
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
  std::unordered_map<std::uint64_t, Object> live_;
  std::optional<TraceEvent> open_;  // The declaration in progress.
  std::vector<TraceEvent> open_accesses_;
  std::unordered_map<std::uint32_t, std::uint32_t> tasks_;  // Keyed by number.
  std::vector<std::uint64_t> requests_;                     // By task.
  double bytes_ = 0;                                        // Of all objects so far.
  LoopGraph graph_;
};

}  // namespace vma
