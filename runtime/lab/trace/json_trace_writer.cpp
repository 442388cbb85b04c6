#include "lab/trace/json_trace_writer.hpp"

#include <vma/error.hpp>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include <iterator>

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

}  // namespace

JsonTraceWriter::JsonTraceWriter(const std::string& path, const TraceHeader& header)
    : path_(path), file_(path, trace_file_terms()) {
  fmt::format_to(std::back_inserter(text_), "{}\n", write_trace_header(header));
}

void JsonTraceWriter::flush() {
  file_.write({text_.data(), text_.size()});
  text_.clear();
}

void JsonTraceWriter::put_tag(std::string_view text) {
  const boost::json::string_view view(text.data(), text.size());
  fmt::format_to(std::back_inserter(text_), ",\"tag\":{}", boost::json::serialize(view));
}

void JsonTraceWriter::add_access(const TraceEvent& event) {
  const auto out = std::back_inserter(text_);
  fmt::format_to(out, ",\"object\":{},\"bytes\":{}", event.object, event.bytes);
  if (event.offset != 0) fmt::format_to(out, ",\"offset\":{}", event.offset);
  fmt::format_to(out, ",\"use\":\"{}\"", name_of(event.use));
  if (event.passes != 1) fmt::format_to(out, ",\"passes\":{}", event.passes);
  if (event.duration != Time(0)) {
    fmt::format_to(out, ",\"duration_ns\":{}", event.duration.count());
  }
  if (event.task != 0) fmt::format_to(out, ",\"task\":{}", event.task);
  if (event.at.is_set()) fmt::format_to(out, ",\"device\":{}", event.at.location().ordinal);
}

void JsonTraceWriter::add(const TraceEvent& event, const TraceTags& tags) {
  const auto out = std::back_inserter(text_);
  fmt::format_to(out, "{{\"event\":\"{}\",\"time_ns\":{}", to_string(event.kind),
                 event.time.count());
  switch (event.kind) {
    case TraceEventKind::access: add_access(event); break;
    case TraceEventKind::allocation:
      fmt::format_to(out, ",\"object\":{},\"bytes\":{}", event.object, event.bytes);
      if (event.chunk_bytes != 0) fmt::format_to(out, ",\"chunk_bytes\":{}", event.chunk_bytes);
      if (event.at.is_set())
        fmt::format_to(out, ",\"home\":\"{}\"", to_string(event.at.location()));
      break;
    case TraceEventKind::place:
      fmt::format_to(out, ",\"object\":{},\"bytes\":{}", event.object, event.bytes);
      if (event.offset != 0) fmt::format_to(out, ",\"offset\":{}", event.offset);
      fmt::format_to(out, ",\"home\":\"{}\"", to_string(event.at.location()));
      break;
    case TraceEventKind::free:
    case TraceEventKind::tag: fmt::format_to(out, ",\"object\":{}", event.object); break;
    case TraceEventKind::mark: break;
  }
  if (event.tag != TagId{}) put_tag(tags.text(event.tag));
  fmt::format_to(out, "}}\n");
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
  flush();
  file_.become(path_);
}

}  // namespace vma
