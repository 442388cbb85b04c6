#pragma once

#include "base/event_trace.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <memory>
#include <string>

namespace vma {

/// A trace, and the thread that brings it to the disk whenever it is asked to. Any thread.
class TraceWriter {
 public:
  /// Throws: as `EventTrace`.
  TraceWriter(Executor& executor, const std::string& file);
  /// Blocks: until all is written.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  EventTrace& trace() noexcept { return trace_; }
  /// Does not block.
  void flush_soon() noexcept;

 private:
  void work();

  EventTrace trace_;
  Mutex mutex_;
  Condition changed_;
  bool asked_ VMART_GUARDED_BY(mutex_) = false;
  bool closed_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> thread_;
};

/// Null where `file` is empty, and where none can be written: that is logged.
std::unique_ptr<TraceWriter> open_trace(Executor& executor, const std::string& file);

}  // namespace vma
