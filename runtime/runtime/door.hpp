#pragma once

#include "base/mutex.hpp"
#include "base/part.hpp"
#include "base/thread_parts.hpp"

#include <atomic>
#include <cstdint>

namespace vma {

/// Counts the calls inside a runtime; once closed it refuses further ones. While it is open,
/// entering and leaving take no lock, and threads count in cache lines of their own.
///
/// Each counter has the door's state in its lowest bit, so that one operation counts a call and
/// sees whether the door is closed. Calls leave a closed door under its mutex, so the waiting
/// thread may destroy the Door as soon as it returns.
class Door final : public Part {
 public:
  /// A part of the calls inside.
  struct Counter {
    std::atomic<std::uint64_t> state{0};  // Calls times two, plus one once closed.
  };

  Door() = default;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// Null once closed. Pass the result to `leave`, on any thread.
  Counter* enter() noexcept;
  void leave(Counter& counter) noexcept;
  void stop_accepting() noexcept override;
  /// Requires: closed. Blocks: until no call is inside.
  void finish() noexcept override;

 private:
  static constexpr std::uint64_t closed = 1, one_call = 2;

  void leave_closed(Counter& counter) noexcept;

  ThreadParts<Counter> counters_;
  Mutex mutex_;
  Condition left_;
};

}  // namespace vma
