#pragma once

#include "memory/contexts_in_use.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace vma {

/// How a program that guards its calls of the driver, as `vmart run` makes it do, keeps its threads
/// from enqueuing. Any thread.
struct ProgramEnqueues {
  /// No thread enqueues from its return on, and none is inside such a call. Returns null then;
  /// otherwise why that cannot be, within the limit, and nothing has changed.
  const char* (*begin)(std::int64_t limit_ns, void* data) = nullptr;
  void (*end)(void* data) = nullptr;
  void* data = nullptr;

  /// Null if the program has none. What is set once lives as long as the process.
  static std::atomic<const ProgramEnqueues*>& of_process() noexcept {
    static constinit std::atomic<const ProgramEnqueues*> only{nullptr};
    return only;
  }
};

/// See `ContextsInUse::note_created`.
inline void note_program_context(ContextHandle context, bool created) {
  created ? ContextsInUse::note_created(context) : ContextsInUse::note_destroyed(context);
}

/// While one lives, no thread of the program enqueues, as far as the program lets itself be told.
/// Requires: the calling thread is in no such call.
class NoEnqueues {
 public:
  explicit NoEnqueues(std::chrono::nanoseconds limit)
      : calls_(ProgramEnqueues::of_process().load()) {
    if (calls_ == nullptr) return;
    if (const char* const why = calls_->begin(limit.count(), calls_->data)) {
      why_not_ = why;
      calls_ = nullptr;
    }
  }
  ~NoEnqueues() {
    if (calls_ != nullptr) calls_->end(calls_->data);
  }
  NoEnqueues(const NoEnqueues&) = delete;
  NoEnqueues& operator=(const NoEnqueues&) = delete;

  /// Empty: none enqueues, or nothing is known of that.
  const std::string& why_not() const noexcept { return why_not_; }

 private:
  const ProgramEnqueues* calls_;
  std::string why_not_;
};

}  // namespace vma
