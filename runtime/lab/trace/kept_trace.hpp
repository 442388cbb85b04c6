#pragma once

#include "lab/trace/trace_sink.hpp"
#include "lab/trace/trace_source.hpp"

#include <span>
#include <vector>

namespace vma {

/// A trace in memory, for repeated reading. Not thread-safe.
class KeptTrace : public TraceSink, public TraceSource {
 public:
  void write(std::span<const TraceEvent> events, const TraceTags& tags) override;
  void finish() override {}
  std::span<const TraceEvent> next() override;

  std::span<TraceEvent> events() noexcept { return events_; }
  std::span<const TraceEvent> events() const noexcept { return events_; }
  /// Restarts at the first event.
  void rewind() noexcept { handed_out_ = 0; }

 private:
  std::vector<TraceEvent> events_;
  std::size_t handed_out_ = 0;
};

}  // namespace vma
