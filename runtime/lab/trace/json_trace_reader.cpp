#include "lab/trace/json_trace_reader.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {

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

}  // namespace vma
