#pragma once

#include "base/clock.hpp"
#include "base/listener.hpp"

#include <vma/location.hpp>

#include <chrono>
#include <cstdint>
#include <functional>

namespace vma {

/// Who is asked to make room at a place that is full, before a call ends in `out_of_memory`. Any
/// thread.
class MemoryPressure {
 public:
  /// Asked for what is lacking at `at`: makes room by `until` if it can, and says whether another
  /// try is worth it. Runs on the thread that wants the memory, with no lock and no turn held but
  /// the move claim and `operations()` of the allocation that moves, if one does. What it throws is
  /// logged and means no.
  using Presser = std::function<bool(Location at, std::uint64_t size_bytes, TimePoint until)>;

  /// `limit` bounds what one call waits for room; zero asks nobody.
  MemoryPressure(Clock& clock, std::chrono::nanoseconds limit) : clock_(clock), limit_(limit) {}

  /// An empty one is nobody. Blocks: while the former runs.
  void set(Presser presser);

  /// One call's want of room: its limit begins with its first question. One thread.
  class Want {
   public:
    explicit Want(MemoryPressure& pressure) : pressure_(pressure) {}
    /// Whether to try once more. Blocks: for the presser, within the limit.
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
