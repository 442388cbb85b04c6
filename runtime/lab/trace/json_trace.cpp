#include "lab/trace/json_trace.hpp"

#include "base/whole_file.hpp"
#include "lab/trace/line_reader.hpp"
#include "lab/trace/trace_line_parser.hpp"

#include <vma/error.hpp>

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vma {
namespace {

class JsonTraceReader final : public TraceSource {
 public:
  JsonTraceReader(const std::string& path, std::uint64_t bad_lines_max);

  std::span<const TraceEvent> next() override;
  const BadLines* bad_lines() const noexcept override { return &bad_; }

 private:
  bool read_line(std::string_view line, TraceEvent& event);
  void read_header();

  LineReader lines_;
  BadLines bad_;
  TraceLineParser parser_;
  std::vector<TraceEvent> batch_;
  std::string first_;  // The first line, if it is not a header.
  bool has_first_ = false;
  std::span<const TraceEvent> after_;  // Those of the last line that were not returned yet.
  Time time_{0};                       // Time of the last event.
};

JsonTraceReader::JsonTraceReader(const std::string& path, std::uint64_t bad_lines_max)
    : lines_(path), bad_(path, bad_lines_max), batch_(batch_max) {
  read_header();
}

void JsonTraceReader::read_header() {
  const std::optional<std::string_view> line = lines_.next();
  if (!line) return;
  if (is_trace_header(*line)) {
    header_ = read_trace_header(*line, fmt::format("{}: line 1", lines_.path()));
    return;
  }
  first_ = *line;
  has_first_ = true;
}

bool JsonTraceReader::read_line(std::string_view line, TraceEvent& event) {
  if (lines_.cut()) {
    bad_.add(lines_.line(), fmt::format("is longer than {} bytes", LineReader::line_bytes_max));
    return false;
  }
  if (line.find_first_not_of(" \t") == std::string_view::npos) return false;
  if (!parser_.parse(line, event, tags_)) {
    bad_.add(lines_.line(), parser_.reason());
    return false;
  }
  if (event.time < time_) {
    bad_.add(lines_.line(), fmt::format("time_ns: {} is before {}, the time of the previous event",
                                        event.time.count(), time_.count()));
    return false;
  }
  time_ = event.time;
  after_ = parser_.after();
  return true;
}

std::span<const TraceEvent> JsonTraceReader::next() {
  std::size_t count = 0;
  if (has_first_) {
    has_first_ = false;
    if (read_line(first_, batch_[count])) ++count;
  }
  while (count < batch_max) {
    if (!after_.empty()) {
      batch_[count++] = after_.front();
      after_ = after_.subspan(1);
      continue;
    }
    const std::optional<std::string_view> line = lines_.next();
    if (!line) break;
    if (read_line(*line, batch_[count])) ++count;
  }
  return {batch_.data(), count};
}

constexpr std::size_t flush_bytes = 64 * 1024;

std::string_view name_of(UseKind use) {
  switch (use) {
    case UseKind::read: return "read";
    case UseKind::write: return "write";
    case UseKind::read_write: return "read_write";
    case UseKind::unknown: break;  // Recordings have it as half a read and write.
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
  if (event.at.is_set()) line["device"] = event.at.place().ordinal;
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
  if (event.at.is_set()) line["device"] = event.at.place().ordinal;
}

void add_task(const TraceEvent& event, boost::json::object& line) {
  line["task"] = event.task;
  if (event.duration != Time(0)) line["compute_ns"] = event.duration.count();
  if (event.bytes != 1) line["repeat"] = event.bytes;
  if (event.object != 0) line["request"] = event.object;
  if (event.at.is_set()) line["device"] = event.at.place().ordinal;
}

class JsonTraceWriter final : public TraceSink {
 public:
  JsonTraceWriter(const std::string& path, const TraceHeader& header);

  void write(std::span<const TraceEvent> events, const TraceTags& tags) override;
  void finish() override;

 private:
  void add(const TraceEvent& event, const TraceTags& tags);
  void add_after(const TraceEvent& event);
  void end_task();
  void flush();

  std::string path_;
  WholeFile file_;
  std::string text_;
  Time time_{0};
  std::uint32_t task_ = 0;  // Its line is not complete yet; 0 if there is none.
  Time task_time_{0};
  bool in_list_ = false;  // Of its predecessors.
  unsigned version_ = trace_version_first;
};

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
      if (event.at.is_set()) line["home"] = to_string(event.at.place());
      break;
    case TraceEventKind::place:
      line["object"] = event.object;
      line["bytes"] = event.bytes;
      if (event.offset != 0) line["offset"] = event.offset;
      line["home"] = to_string(event.at.place());
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

}  // namespace

std::unique_ptr<TraceSource> read_json_trace(const std::string& path, std::uint64_t bad_lines_max) {
  return std::make_unique<JsonTraceReader>(path, bad_lines_max);
}

std::unique_ptr<TraceSink> write_json_trace(const std::string& path, const TraceHeader& header) {
  return std::make_unique<JsonTraceWriter>(path, header);
}

}  // namespace vma
