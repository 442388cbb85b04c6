#pragma once

#include "base/clock.hpp"

#include <atomic>
#include <cstdint>

namespace vma {

/// The open `CopyScope`s of the process, and whether new ones wait. Any thread.
///
/// The driver looks the operands of copies and fills up when they are enqueued, and finds nothing
/// at a dark slot. So a stop that leads to a switch lets no scope begin, and no slot goes dark
/// before the open ones have ended.
class CopyScopes {
 public:
  static CopyScopes& process() noexcept;

  /// Blocks: while a `NoCopies` holds scopes back.
  void enter() noexcept;
  void leave() noexcept;
  /// Whether the last stop found one open: the next stop then waits for them before it stops
  /// anything.
  bool were_in_the_way() const noexcept { return in_the_way_; }

 private:
  friend class NoCopies;

  bool may_go_on() const noexcept;

  std::atomic<std::int64_t> open_{0};
  std::atomic<std::uint32_t> held_back_{0};  // How many stops hold scopes back.
  std::atomic<std::int32_t> holder_{0};      // The process of the last one.
  std::atomic<bool> in_the_way_{false};
};

/// What one stop holds back: no `CopyScope` is open from `begin` to `end`.
class NoCopies {
 public:
  NoCopies() = default;
  ~NoCopies() { end(); }
  NoCopies(const NoCopies&) = delete;
  NoCopies& operator=(const NoCopies&) = delete;

  /// New scopes wait, and the open ones end. False: one is still open at `deadline`, perhaps in a
  /// call that waits for stopped work; then nothing is held back. Does nothing if it has begun.
  bool begin(Clock& clock, TimePoint deadline);
  /// Any thread; idempotent. Requires: no slot is dark.
  void end() noexcept;

 private:
  std::atomic<bool> begun_{false};
};

}  // namespace vma
