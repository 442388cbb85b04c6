#pragma once

#include "base/clock.hpp"

#include <chrono>

namespace vma {

/// Adds the duration of its scope to a phase.
class PhaseTimer {
 public:
  PhaseTimer(Clock& clock, std::chrono::nanoseconds& phase)
      : clock_(clock), phase_(phase), start_(clock.now()) {}
  ~PhaseTimer() { phase_ += clock_.now() - start_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  Clock& clock_;
  std::chrono::nanoseconds& phase_;
  TimePoint start_;
};

}  // namespace vma
