#pragma once

#include "lab/trace/trace_event.hpp"
#include "lab/trace/trace_header.hpp"
#include "lab/trace/trace_source.hpp"

#include <boost/json/fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace vma {

/// The memory that a trace needs.
struct TraceRoom {
  std::uint64_t peak_bytes = 0;  ///< Peak size of the live objects.
  /// The largest chunk among objects whose chunk size the trace gives, and the largest of the other
  /// objects.
  std::uint64_t sized_chunk_max = 0, unsized_object_max = 0;

  /// Size of the largest chunk if the other objects are split into chunks of `otherwise` bytes.
  std::uint64_t chunk_max(std::uint64_t otherwise) const noexcept;
};

/// A set of the numbers of tasks or objects: a bit each, as most traces count them up.
class NumberSet {
 public:
  /// Returns false if it is in the set already.
  bool insert(std::uint64_t number);
  bool contains(std::uint64_t number) const;

 private:
  std::unordered_map<std::uint64_t, std::array<std::uint64_t, 8>> bits_;  // 512 numbers each.
};

/// Checks that each event of a trace is consistent with the earlier ones, and adds up totals.
/// Memory grows with the number of live objects, and by a bit with each task and each object of a
/// task. Not thread-safe.
/// One owner: what the events so far say, against which the next one is checked.
class TraceAudit {
 public:
  struct Fault {
    std::uint64_t event = 0;  ///< Counted from 1.
    std::string reason;
  };
  static constexpr std::size_t faults_kept_max = 20;

  /// Returns why `event` is inconsistent: an access beyond its object, an object that is not live,
  /// or one that is already live; a number of an object that has had declared tasks;
  /// a task that is declared twice or that is not declared, or events
  /// of a task that do not follow its declaration. Counts the event anyway. Requires: `fault_of`
  /// accepts it.
  std::optional<std::string> add(const TraceEvent& event);
  /// Adds several events, and keeps the first faults.
  void add(std::span<const TraceEvent> events);

  std::uint64_t events() const noexcept { return events_; }
  std::uint64_t count(TraceEventKind kind) const { return counts_[static_cast<unsigned>(kind)]; }
  std::uint64_t fault_count() const noexcept { return fault_count_; }
  std::span<const Fault> faults() const noexcept { return faults_; }
  Time begin() const noexcept { return begin_; }
  Time end() const noexcept { return end_; }  ///< End of the last event or access.
  std::uint64_t objects_live() const noexcept { return live_.size(); }
  std::uint64_t bytes_live_max() const noexcept { return room_.peak_bytes; }
  const TraceRoom& room() const noexcept { return room_; }
  double bytes_read() const noexcept { return bytes_read_; }
  double bytes_written() const noexcept { return bytes_written_; }
  /// Number of accesses whose device the router chooses.
  std::uint64_t unplaced() const noexcept { return unplaced_; }
  /// Ordinals of the GPUs that accesses and tasks name.
  const std::set<int>& devices() const noexcept { return devices_; }

 private:
  std::optional<std::string> judge(const TraceEvent& event);
  std::optional<std::string> judge_task(const TraceEvent& event);
  /// An access, or a hint that the task gives when it starts.
  std::optional<std::string> judge_use_of_task(const TraceEvent& event);
  void count_access(const TraceEvent& event);
  void count_device(TracePlace at);
  void count_room(const TraceEvent& allocation);

  std::unordered_map<std::uint64_t, std::uint64_t> live_;  // Sizes by object.
  NumberSet declared_, undeclared_;                        // Tasks; the latter in accesses.
  NumberSet
      of_tasks_;  // Objects that declared tasks access or announce, or whose end waits for one.
  std::uint32_t undeclared_last_ = 0;
  TraceEvent task_;  // The last event declared it, or belongs to it; else its number is 0.
  unsigned task_after_ = 0;
  bool task_accesses_ = false;  // It has an access or a hint.
  std::array<std::uint64_t, trace_event_kinds + 1> counts_{};
  std::uint64_t events_ = 0, fault_count_ = 0, unplaced_ = 0;
  std::uint64_t bytes_live_ = 0;
  TraceRoom room_;
  double bytes_read_ = 0, bytes_written_ = 0;
  std::set<int> devices_;
  Time begin_{0}, end_{0};
  std::vector<Fault> faults_;
};

/// The header and the totals; the keys are their names. Times are in nanoseconds.
boost::json::object to_json(const TraceHeader& header, const TraceAudit& audit);

}  // namespace vma
