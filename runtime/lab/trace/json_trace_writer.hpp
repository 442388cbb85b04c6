#pragma once

#include "base/whole_file.hpp"
#include "lab/trace/trace_sink.hpp"

#include <cstdint>
#include <string>

namespace vma {

/// Writes a trace of JSON lines. Omits members with default values. Not thread-safe.
class JsonTraceWriter final : public TraceSink {
 public:
  /// Throws: Error{invalid_argument} with the file, if it cannot be created.
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

}  // namespace vma
