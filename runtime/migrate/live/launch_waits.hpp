#pragma once

#include "base/clock.hpp"
#include "migrate/gates/program_calls.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace vma {

/// How long calls of a move wait in the driver. A program that has launched all for which its
/// context has room waits inside its next launch, with the lock of the context, until a kernel or a
/// graph ends; a launch of the runtime then waits as long. If the program lets it, the move pauses
/// the program's launches while it has several of its own to make, so that only the first one
/// waits. Only the thread of the move calls it.
class LaunchWaits {
 public:
  explicit LaunchWaits(Clock& clock) noexcept : clock_(clock) {}
  LaunchWaits(const LaunchWaits&) = delete;
  LaunchWaits& operator=(const LaunchWaits&) = delete;

  /// Calls that take longer wait behind a launch of the program.
  static constexpr std::chrono::microseconds usual{300};

  /// Calls were made that launch and took so long. Under a pause only the first ones count.
  void note(std::chrono::nanoseconds took) noexcept;
  /// The longest one lately is taken for a little shorter, so that it is tried again now and then.
  void fade() noexcept { longest_ -= longest_ / 32; }
  bool any() const noexcept { return longest_ >= usual; }
  std::chrono::nanoseconds longest() const noexcept { return longest_; }

  /// While it exists, the program launches nothing. There is one only if two calls in a row have
  /// waited and the program lets it. Do not nest. Requires: no stream is stopped, and the calling
  /// thread calls no hook of the program.
  class Pause {
   public:
    explicit Pause(LaunchWaits& waits) noexcept;
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    bool began() const noexcept { return asked_ != nullptr; }
    /// Whether further calls are not likely to wait now.
    bool holds() const noexcept;

   private:
    LaunchWaits& waits_;
    const ProgramCall<std::int64_t>::Known* asked_ = nullptr;  // Null: there is no pause.
    TimePoint end_{0};
  };
  /// Has `pause` from now on, or none if it may not: a hook of the program is called next.
  void pause_if(bool may, std::optional<Pause>& pause) noexcept;

 private:
  Clock& clock_;
  std::chrono::nanoseconds longest_{0};
  int slow_in_a_row_ = 0;
  bool paused_ = false;
  bool noted_ = false;       // In this pause.
  bool is_useless_ = false;  // Others than those that pause keep calls waiting.
};

}  // namespace vma
