#include "recording/perfetto_writer.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <vma/error.hpp>

namespace vma {

PerfettoWriter::PerfettoWriter(Executor& executor, const std::string& file) : trace_(file) {
  thread_ = executor.spawn("vmart trace", [this] { work(); });
}

PerfettoWriter::~PerfettoWriter() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  thread_->join();
}

void PerfettoWriter::flush_soon() noexcept {
  const MutexLock lock(mutex_);
  asked_ = true;
  changed_.notify_all();
}

/// Does not hold the lock during disk writes. The trace itself writes the last entries.
void PerfettoWriter::work() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return asked_ || closed_; });
    if (closed_) return;
    asked_ = false;
    lock.unlock();
    ProcessExit::hold_back();  // During process exit, another thread writes the last entries.
    trace_.flush();
    lock.lock();
  }
}

std::unique_ptr<PerfettoWriter> open_trace(Executor& executor, const std::string& file) {
  if (file.empty()) return nullptr;
  try {
    return std::make_unique<PerfettoWriter>(executor, file);
  } catch (const Error& error) {
    log(LogLevel::warn, "VMART_TRACE: cannot write the trace: {}", error.what());
    return nullptr;
  }
}

}  // namespace vma
