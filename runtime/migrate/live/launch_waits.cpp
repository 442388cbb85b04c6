#include "migrate/live/launch_waits.hpp"

#include "migrate/gates/program_calls.hpp"

#include <algorithm>

namespace vma {
namespace {

/// What is on its way when a pause begins takes as long as one call, and what follows less.
constexpr int pause_calls = 4;
/// A kernel may wait for one that a thread is about to launch.
constexpr std::chrono::milliseconds pause_max(200);

}  // namespace

void LaunchWaits::note(std::chrono::nanoseconds took) noexcept {
  if (paused_ && noted_) return;
  noted_ = true;
  longest_ = std::max(took, longest_ * 7 / 8);
  if (paused_ && took > pause_max) is_useless_ = true;
}

LaunchWaits::Pause::Pause(LaunchWaits& waits) noexcept : waits_(waits) {
  if (!waits_.any() || waits_.is_useless_) return;
  const auto limit = std::min<std::chrono::nanoseconds>(pause_calls * waits_.longest_, pause_max);
  if (!ProgramCalls::of_process().pause_launches.call(limit.count())) return;
  end_ = waits_.clock_.now() + limit;
  waits_.paused_ = true;
  waits_.noted_ = false;
}

LaunchWaits::Pause::~Pause() {
  if (end_ == TimePoint(0)) return;
  waits_.paused_ = false;
  ProgramCalls::of_process().pause_launches.call(0);
}

bool LaunchWaits::Pause::holds() const noexcept {
  return end_ != TimePoint(0) && waits_.clock_.now() < end_;
}

}  // namespace vma
