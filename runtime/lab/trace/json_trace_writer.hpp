#pragma once

#include "base/whole_file.hpp"
#include "lab/trace/trace_sink.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace vma {

/// Writes a trace of JSON lines. Members with default values are left out. Not thread-safe.
class JsonTraceWriter final : public TraceSink {
 public:
  /// Throws: Error{invalid_argument} that names a file which cannot be created.
  JsonTraceWriter(const std::string& path, const TraceHeader& header);

  void write(std::span<const TraceEvent> events, const TraceTags& tags) override;
  void finish() override;

 private:
  void add(const TraceEvent& event, const TraceTags& tags);
  void add_access(const TraceEvent& event);
  void put_tag(std::string_view text);
  void flush();

  std::string path_;
  WholeFile file_;
  fmt::memory_buffer text_;
  Time time_{0};
};

}  // namespace vma
