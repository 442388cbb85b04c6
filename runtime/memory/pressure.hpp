#pragma once

#include "base/clock.hpp"
#include "base/listener.hpp"

#include <vma/location.hpp>

#include <chrono>
#include <cstdint>
#include <functional>

namespace vma {

/// Asks a presser to make room at a full place before a call ends in `out_of_memory`. Any thread.
class MemoryPressure {
 public:
  /// Called with the number of bytes lacking at `at`: makes room by `until` if it can, and returns
  /// whether to retry. Runs on the thread that needs the memory, with no lock and no turn held
  /// except the move claim and `operations()` of the allocation that moves, if one does. An
  /// exception is logged and counts as false.
  using Presser = std::function<bool(Location at, std::uint64_t size_bytes, TimePoint until)>;

  /// `limit` bounds how long one call waits for room; zero never asks the presser.
  MemoryPressure(Clock& clock, std::chrono::nanoseconds limit) : clock_(clock), limit_(limit) {}

  /// An empty presser removes it. Blocks: while the former runs.
  void set(Presser presser);

  /// One call's need for room: its time limit starts with its first `ask`. One thread.
  class Want {
   public:
    explicit Want(MemoryPressure& pressure) : pressure_(pressure) {}
    /// Whether to retry. Blocks: for the presser, within the limit.
    bool ask(Location at, std::uint64_t size_bytes);

   private:
    MemoryPressure& pressure_;
    TimePoint until_ = never;
  };

 private:
  void nap_until(TimePoint time);

  Clock& clock_;
  const std::chrono::nanoseconds limit_;
  Listener<Presser> presser_;
};

}  // namespace vma
