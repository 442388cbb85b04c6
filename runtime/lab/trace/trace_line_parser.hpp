#pragma once

#include "lab/trace/trace_event.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Parses one event from one line of JSON, without building a document. Not thread-safe.
class TraceLineParser {
 public:
  TraceLineParser();
  ~TraceLineParser();
  TraceLineParser(const TraceLineParser&) = delete;
  TraceLineParser& operator=(const TraceLineParser&) = delete;

  /// Returns false if the line is not an event; `reason` says why. Adds texts to `tags`.
  bool parse(std::string_view line, TraceEvent& event, TraceTags& tags);
  /// The predecessors of the task that the last successful call returned: `after` events, which
  /// follow it. Valid until the next call.
  std::span<const TraceEvent> after() const noexcept { return after_; }
  /// Valid until the next call.
  const std::string& reason() const noexcept { return reason_; }

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::string reason_;
  std::vector<TraceEvent> after_;
};

}  // namespace vma
