#pragma once

#include "runtime/runtime_parts.hpp"

#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

namespace vma {

/// For objects that outlive their runtime: their calls then do nothing.
class Guest {
 public:
  Guest(RuntimeParts& parts, std::shared_ptr<Allocation> allocation)
      : allocation(std::move(allocation)),
        parts_(parts),
        open_(parts.open),
        process_(parts.process) {}

  /// In a forked child, locks of the allocation may stay held for ever: call none of its functions.
  bool in_forked_child() const noexcept { return getpid() != process_; }

  /// Runs `body(machinery)` unless the runtime was shut down, or this is a forked child.
  template <typename Body>
  void leave(const char* what, Body&& body) noexcept {
    if (!*open_ || in_forked_child()) return;
    try {
      const RuntimeParts::Entry entry(parts_, what);
      body(entry);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "could not end a {} of {:#x} cleanly: {}", what,
          to_integer(allocation->begin()), error.what());
    }
  }

  void tell_changed(const char* what) noexcept {
    leave(what,
          [this](const RuntimeParts::Entry& entry) { entry->memory.tell_changed(*allocation); });
  }

  const std::shared_ptr<Allocation> allocation;

 private:
  RuntimeParts& parts_;
  const std::shared_ptr<std::atomic<bool>> open_;
  const int process_;
};

}  // namespace vma
