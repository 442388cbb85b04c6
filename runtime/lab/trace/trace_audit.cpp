#include "lab/trace/trace_audit.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {

std::uint64_t TraceRoom::chunk_max(std::uint64_t otherwise) const noexcept {
  return std::max(sized_chunk_max, std::min(unsized_object_max, otherwise));
}

bool NumberSet::insert(std::uint64_t number) {
  std::uint64_t& word = bits_[number / 512][number / 64 % 8];
  const std::uint64_t bit = std::uint64_t{1} << (number % 64);
  const bool is_new = (word & bit) == 0;
  word |= bit;
  return is_new;
}

bool NumberSet::contains(std::uint64_t number) const {
  const auto found = bits_.find(number / 512);
  return found != bits_.end() && (found->second[number / 64 % 8] >> (number % 64) & 1) != 0;
}

void TraceAudit::count_room(const TraceEvent& allocation) {
  bytes_live_ += allocation.bytes;
  room_.peak_bytes = std::max(room_.peak_bytes, bytes_live_);
  std::uint64_t& largest =
      allocation.chunk_bytes > 0 ? room_.sized_chunk_max : room_.unsized_object_max;
  const std::uint64_t chunk =
      allocation.chunk_bytes > 0 ? allocation.chunk_bytes : allocation.bytes;
  largest = std::max(largest, std::min(chunk, allocation.bytes));
}

void TraceAudit::count_access(const TraceEvent& event) {
  const bool declared = event.task != 0 && event.task == task_.task;
  const double times = declared ? static_cast<double>(task_.bytes) : 1;
  const double bytes = static_cast<double>(event.bytes) * static_cast<double>(event.passes) * times;
  if (event.use != UseKind::write) bytes_read_ += bytes;
  if (event.use != UseKind::read) bytes_written_ += bytes;
  count_device(event.at);
  if (!event.at.is_set() && !(declared && task_.at.is_set())) ++unplaced_;
  end_ = std::max(end_, event.time + event.duration);
}

void TraceAudit::count_device(TracePlace at) {
  if (at.is_set()) devices_.insert(at.place().ordinal);
}

/// An event that has the number of a task and is not an access or hint of it: a task, a
/// predecessor, or what happens at the end of a task.
std::optional<std::string> TraceAudit::judge_task(const TraceEvent& event) {
  if (event.kind == TraceEventKind::task) {
    count_device(event.at);
    end_ = std::max(end_, event.time + event.duration * static_cast<std::int64_t>(event.bytes));
    task_ = event;
    task_after_ = 0;
    task_accesses_ = false;
    const bool is_new = declared_.insert(event.task);
    if (!is_new) return fmt::format("task {} is already declared", event.task);
    if (undeclared_.contains(event.task))
      return fmt::format("task {} is declared after its first access", event.task);
    return std::nullopt;
  }
  if (event.kind == TraceEventKind::after) {
    if (event.task != task_.task || task_accesses_ || event.time != task_.time)
      return fmt::format("a predecessor of task {} does not follow the task", event.task);
    if (++task_after_ > trace_after_max)
      return fmt::format("task {} has more than {} predecessors", event.task, trace_after_max);
  }
  const auto awaited =
      event.kind == TraceEventKind::after ? static_cast<std::uint32_t>(event.object) : event.task;
  if (!declared_.contains(awaited)) return fmt::format("task {} is not declared", awaited);
  return std::nullopt;
}

std::optional<std::string> TraceAudit::judge_use_of_task(const TraceEvent& event) {
  const bool hint = event.kind == TraceEventKind::hint;
  const char* const what = hint ? "a hint" : "an access";
  if (event.task != task_.task) {
    task_ = {};
    if (event.task == undeclared_last_ && !hint) return std::nullopt;
    if (declared_.contains(event.task))
      return fmt::format("{} of task {} does not follow the task", what, event.task);
    if (hint) return fmt::format("task {} is not declared", event.task);
    undeclared_.insert(undeclared_last_ = event.task);
    return std::nullopt;
  }
  task_accesses_ = true;
  of_tasks_.insert(event.object);
  if (event.time != task_.time)
    return fmt::format("{} of task {} has another time than the task", what, event.task);
  if (hint) return std::nullopt;
  if (event.duration != Time(0))
    return fmt::format("an access of task {} has a duration, but the task gives it", event.task);
  if (event.at.is_set() && event.at != task_.at)
    return fmt::format("an access of task {} has another device than the task", event.task);
  return std::nullopt;
}

std::optional<std::string> TraceAudit::judge(const TraceEvent& event) {
  const bool of_task = event.kind == TraceEventKind::task || event.kind == TraceEventKind::after;
  const bool uses = event.kind != TraceEventKind::after && may_declare(event);
  if (uses && event.task != 0) {
    if (std::optional<std::string> fault = judge_use_of_task(event)) return fault;
  } else {
    if (!of_task) task_ = {};
    if (needs_tasks(event)) {
      if (std::optional<std::string> fault = judge_task(event)) return fault;
    }
  }
  if (of_task || event.kind == TraceEventKind::mark) return std::nullopt;
  const auto found = live_.find(event.object);
  if (event.kind == TraceEventKind::allocation) {
    if (found != live_.end()) return fmt::format("object {} already exists", event.object);
    // In a replay, tasks may end later than in the file.
    if (of_tasks_.contains(event.object))
      return fmt::format("object {} has the number of one that tasks used", event.object);
    live_.emplace(event.object, event.bytes);
    count_room(event);
    return std::nullopt;
  }
  if (found == live_.end()) return fmt::format("object {} does not exist", event.object);
  const bool waits = event.task != 0 && event.kind != TraceEventKind::access;
  if (waits) of_tasks_.insert(event.object);
  if (event.kind == TraceEventKind::free) {
    bytes_live_ -= found->second;
    live_.erase(found);
  } else if (event.kind != TraceEventKind::tag &&
             (event.offset > found->second || event.bytes > found->second - event.offset)) {
    return fmt::format("{} bytes from {} on of object {}, which has {}", event.bytes, event.offset,
                       event.object, found->second);
  }
  return std::nullopt;
}

std::optional<std::string> TraceAudit::add(const TraceEvent& event) {
  if (events_ == 0) begin_ = event.time;
  ++events_;
  ++counts_[static_cast<unsigned>(event.kind)];
  end_ = std::max(end_, event.time);
  if (event.kind == TraceEventKind::access) count_access(event);
  std::optional<std::string> fault = judge(event);
  if (fault) ++fault_count_;
  return fault;
}

void TraceAudit::add(std::span<const TraceEvent> events) {
  for (const TraceEvent& event : events) {
    std::optional<std::string> fault = add(event);
    if (fault && faults_.size() < faults_kept_max) faults_.push_back({events_, *std::move(fault)});
  }
}

boost::json::object to_json(const TraceHeader& header, const TraceAudit& audit) {
  boost::json::object counts;
  for (unsigned kind = 1; kind <= trace_event_kinds; ++kind) {
    const auto one = static_cast<TraceEventKind>(kind);
    counts[to_string(one)] = audit.count(one);
  }
  return {{"name", header.name},
          {"origin", header.origin},
          {"licence", header.licence},
          {"made", header.made},
          {"events", audit.events()},
          {"counts", std::move(counts)},
          {"begin_ns", audit.begin().count()},
          {"end_ns", audit.end().count()},
          {"bytes_live_max", audit.bytes_live_max()},
          {"objects_live", audit.objects_live()},
          {"bytes_read", audit.bytes_read()},
          {"bytes_written", audit.bytes_written()},
          {"unplaced", audit.unplaced()},
          {"gpus", boost::json::array(audit.devices().begin(), audit.devices().end())}};
}

}  // namespace vma
