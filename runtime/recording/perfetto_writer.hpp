#pragma once

#include "base/perfetto_trace.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <memory>
#include <string>

namespace vma {

/// A trace, and a thread that writes it to disk on request. Any thread.
class PerfettoWriter {
 public:
  /// Throws: like `PerfettoTrace`.
  PerfettoWriter(Executor& executor, const std::string& file);
  /// Blocks: until everything is written.
  ~PerfettoWriter();
  PerfettoWriter(const PerfettoWriter&) = delete;
  PerfettoWriter& operator=(const PerfettoWriter&) = delete;

  PerfettoTrace& trace() noexcept { return trace_; }
  /// Does not block.
  void flush_soon() noexcept;

 private:
  void work();

  PerfettoTrace trace_;
  Mutex mutex_;
  Condition changed_;
  bool asked_ VMART_GUARDED_BY(mutex_) = false;
  bool closed_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> thread_;
};

/// Null if `file` is empty or cannot be written; the latter is logged.
std::unique_ptr<PerfettoWriter> open_trace(Executor& executor, const std::string& file);

}  // namespace vma
