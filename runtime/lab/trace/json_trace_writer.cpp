#include "lab/trace/json_trace_writer.hpp"

#include <vma/error.hpp>

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vma {
namespace {

constexpr std::size_t flush_bytes = 64 * 1024;

std::string_view name_of(UseKind use) {
  switch (use) {
    case UseKind::read: return "read";
    case UseKind::write: return "write";
    case UseKind::read_write: return "read_write";
  }
  return "unknown";
}

/// Boost.JSON writes "5E2", which people read less easily than 500.
boost::json::value passes_of(float passes) {
  constexpr float exact_below = 1 << 24;  // A float is a whole number from there on.
  const auto whole = static_cast<std::uint64_t>(std::min(passes, exact_below));
  if (static_cast<float>(whole) == passes) return whole;
  return passes;
}

void add_access(const TraceEvent& event, boost::json::object& line) {
  line["object"] = event.object;
  line["bytes"] = event.bytes;
  if (event.offset != 0) line["offset"] = event.offset;
  line["use"] = name_of(event.use);
  if (event.passes != 1) line["passes"] = passes_of(event.passes);
  if (event.duration != Time(0)) line["duration_ns"] = event.duration.count();
  if (event.task != 0) line["task"] = event.task;
  if (event.at.is_set()) line["device"] = event.at.location().ordinal;
}

void add_hint(const TraceEvent& event, boost::json::object& line) {
  line["object"] = event.object;
  line["bytes"] = event.bytes;
  if (event.offset != 0) line["offset"] = event.offset;
  if (event.use != UseKind::read_write) line["use"] = name_of(event.use);
  if (event.passes != 1) line["passes"] = passes_of(event.passes);
  if (event.duration != trace_time_unknown) line["next_use_ns"] = event.duration.count();
  if (event.chunk_bytes != 0) line["until_ns"] = event.chunk_bytes;
  if (event.task != 0 && !event.at_end) line["task"] = event.task;
  if (event.at.is_set()) line["device"] = event.at.location().ordinal;
}

void add_task(const TraceEvent& event, boost::json::object& line) {
  line["task"] = event.task;
  if (event.duration != Time(0)) line["compute_ns"] = event.duration.count();
  if (event.bytes != 1) line["repeat"] = event.bytes;
  if (event.object != 0) line["request"] = event.object;
  if (event.at.is_set()) line["device"] = event.at.location().ordinal;
}

}  // namespace

JsonTraceWriter::JsonTraceWriter(const std::string& path, const TraceHeader& header)
    : path_(path), file_(path, trace_file_terms()), text_(write_trace_header(header) + "\n") {}

void JsonTraceWriter::flush() {
  file_.write(text_);
  text_.clear();
}

/// Predecessors are a member of their task's line.
void JsonTraceWriter::add_after(const TraceEvent& event) {
  if (event.task != task_ || event.time != task_time_) {
    throw Error(
        ErrorKind::invalid_argument, "TraceSink::write",
        fmt::format("{}: a predecessor of task {} does not follow the task", path_, event.task));
  }
  text_ += in_list_ ? "," : ",\"after\":[";
  text_ += std::to_string(event.object);
  in_list_ = true;
}

void JsonTraceWriter::end_task() {
  if (task_ == 0) return;
  text_ += in_list_ ? "]}\n" : "}\n";
  task_ = 0;
  in_list_ = false;
}

void JsonTraceWriter::add(const TraceEvent& event, const TraceTags& tags) {
  version_ = std::max(version_, version_with(event));
  if (event.kind == TraceEventKind::after) return add_after(event);
  end_task();
  // A line takes no memory of the heap: a trace has millions of them.
  std::array<unsigned char, 2048> room;
  boost::json::monotonic_resource memory(room.data(), room.size());
  boost::json::object line(&memory);
  line["event"] = to_string(event.kind);
  line["time_ns"] = event.time.count();
  switch (event.kind) {
    case TraceEventKind::access: add_access(event, line); break;
    case TraceEventKind::allocation:
      line["object"] = event.object;
      line["bytes"] = event.bytes;
      if (event.chunk_bytes != 0) line["chunk_bytes"] = event.chunk_bytes;
      if (event.at.is_set()) line["home"] = to_string(event.at.location());
      break;
    case TraceEventKind::place:
      line["object"] = event.object;
      line["bytes"] = event.bytes;
      if (event.offset != 0) line["offset"] = event.offset;
      line["home"] = to_string(event.at.location());
      break;
    case TraceEventKind::free:
    case TraceEventKind::tag: line["object"] = event.object; break;
    case TraceEventKind::task: add_task(event, line); break;
    case TraceEventKind::hint: add_hint(event, line); break;
    case TraceEventKind::mark:
    case TraceEventKind::after: break;
  }
  const bool waits = event.task != 0 && event.kind != TraceEventKind::task && !may_declare(event);
  if (waits) line["after_task"] = event.task;
  if (event.tag != TagId{}) line["tag"] = boost::json::string_view(tags.text(event.tag));
  text_ += boost::json::serialize(line);
  if (event.kind != TraceEventKind::task) {
    text_ += '\n';
    return;
  }
  text_.pop_back();  // The brace: predecessors may follow.
  task_ = event.task;
  task_time_ = event.time;
}

void JsonTraceWriter::write(std::span<const TraceEvent> events, const TraceTags& tags) {
  for (const TraceEvent& event : events) {
    require_next(event, time_, path_);
    time_ = event.time;
    add(event, tags);
    if (text_.size() >= flush_bytes) flush();
  }
}

void JsonTraceWriter::finish() {
  end_task();
  flush();
  if (version_ > trace_version_first) file_.rewrite_begin(trace_header_begin(version_));
  file_.become(path_);
}

}  // namespace vma
