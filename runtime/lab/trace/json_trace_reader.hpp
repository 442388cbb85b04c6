#pragma once

#include "lab/trace/line_reader.hpp"
#include "lab/trace/trace_line_parser.hpp"
#include "lab/trace/trace_source.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Reads a trace of JSON lines. Skips empty lines; a line that is not a valid event, or is earlier
/// than the previous event, is a bad line.
class JsonTraceReader final : public TraceSource {
 public:
  /// Throws: Error{invalid_argument} with the file.
  explicit JsonTraceReader(const std::string& path, std::uint64_t bad_lines_max);

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

}  // namespace vma
