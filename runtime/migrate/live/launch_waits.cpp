#include "migrate/live/launch_waits.hpp"

#include <algorithm>

namespace vma {
namespace {

/// What is on its way when a pause begins takes as long as one call, and what follows less.
constexpr int pause_calls = 4;
/// A kernel may wait for one that a thread is about to launch.
constexpr std::chrono::milliseconds pause_max(200);
/// What was on its way has returned by the second call of a pause.
constexpr std::chrono::milliseconds slow_in_pause(5);

}  // namespace

void LaunchWaits::note(std::chrono::nanoseconds took) noexcept {
  if (paused_ && noted_) {
    if (took >= std::max<std::chrono::nanoseconds>(slow_in_pause, longest_ / 2)) is_useless_ = true;
    return;
  }
  noted_ = true;
  longest_ = std::max(took, longest_ * 7 / 8);
  slow_in_a_row_ = took >= usual ? slow_in_a_row_ + 1 : 0;
}

LaunchWaits::Pause::Pause(LaunchWaits& waits) noexcept : waits_(waits) {
  if (waits_.slow_in_a_row_ < 2 || waits_.is_useless_) return;
  asked_ = ProgramCalls::of_process().pause_launches.get();
  if (asked_ == nullptr) return;
  const auto limit = std::min<std::chrono::nanoseconds>(pause_calls * waits_.longest_, pause_max);
  (*asked_)(limit.count());
  end_ = waits_.clock_.now() + limit;
  waits_.paused_ = true;
  waits_.noted_ = false;
}

LaunchWaits::Pause::~Pause() {
  if (asked_ == nullptr) return;
  waits_.paused_ = false;
  (*asked_)(0);
}

void LaunchWaits::pause_if(bool may, std::optional<Pause>& pause) noexcept {
  if (!may) {
    pause.reset();
  } else if (!pause || !pause->began()) {
    pause.emplace(*this);
  }
}

bool LaunchWaits::Pause::holds() const noexcept {
  return asked_ != nullptr && waits_.clock_.now() < end_;
}

}  // namespace vma
