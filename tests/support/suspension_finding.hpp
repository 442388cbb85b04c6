#pragma once

#include "migrate/moves/migrator.hpp"

#include <chrono>

namespace vma {

/// What the check of suspension finds, however often a busy computer lets nothing of it begin in
/// time. `clock`: that of the driver, which passes between the tries. Blocks: for a minute at most.
inline SuspensionFinding decided_finding(Migrator& migrator, Clock& clock, DeviceId device) {
  SteadyClock wall;
  for (const TimePoint end = wall.now() + std::chrono::minutes(1);;) {
    const SuspensionFinding found = migrator.check_suspension(device);
    if (found.state != SuspensionFinding::State::unknown || wall.now() >= end) return found;
    poll_until(clock, clock.now() + std::chrono::milliseconds(100), [] { return false; });
  }
}

}  // namespace vma
