#include "telemetry/gpu_monitor.hpp"

#include <exception>
#include <utility>

namespace vma {

/// Shared with the thread, which may come back from the library after the monitor has gone.
struct GpuMonitor::State {
  std::shared_ptr<Clock> clock;
  std::vector<NamedGpu> gpus;
  std::string library;  // Constant, as what is above, once the thread runs.
  Mutex mutex;
  Condition changed;
  GpuLoads last VMART_GUARDED_BY(mutex);
  TimePoint sampled_at VMART_GUARDED_BY(mutex){-1};
  TimePoint asked_at VMART_GUARDED_BY(mutex){0};
  bool asked VMART_GUARDED_BY(mutex) = false;
  bool closed VMART_GUARDED_BY(mutex) = false;
  bool ended VMART_GUARDED_BY(mutex) = false;
};

GpuMonitor::GpuMonitor(Executor& executor, std::shared_ptr<Clock> clock, std::vector<NamedGpu> gpus,
                       std::string library, std::string why_not)
    : executor_(executor), state_(std::make_shared<State>()) {
  state_->clock = std::move(clock);
  state_->gpus = std::move(gpus);
  state_->library = std::move(library);
  const MutexLock lock(state_->mutex);
  if (state_->library.empty()) {
    state_->last.reason = std::move(why_not);
  } else {
    state_->last.state = GpuLoads::State::starting;
  }
}

GpuMonitor::~GpuMonitor() {
  bool ended = false;
  {
    MutexLock lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
    if (!thread_) return;
    SteadyClock wall;  // The library's time is the processor's, whatever clock the samples go by.
    ended = state_->changed.wait_until(lock, wall, wall.now() + patience,
                                       [this]() VMART_NO_THREAD_ANALYSIS { return state_->ended; });
  }
  if (ended) {
    thread_->join();
  } else {
    thread_->abandon();
  }
}

GpuLoads GpuMonitor::loads() {
  const MutexLock lock(state_->mutex);
  GpuLoads answer = state_->last;
  if (answer.state == GpuLoads::State::off) return answer;
  const TimePoint now = state_->clock->now();
  try {
    if (!thread_) thread_ = executor_.spawn("vmart nvml", [state = state_] { work(state); });
  } catch (const std::exception& error) {
    state_->last = {GpuLoads::State::off, error.what(), TimePoint(-1), {}};
    return state_->last;
  }
  state_->asked = true;
  state_->asked_at = now;
  state_->changed.notify_all();
  if (answer.state != GpuLoads::State::on) return answer;
  answer.age = now - state_->sampled_at;
  if (answer.age <= stale) return answer;
  GpuLoads waking;
  waking.state = GpuLoads::State::starting;
  return waking;
}

/// Until the monitor goes, or the library has nothing to say. The lock is not held in the library.
void GpuMonitor::sample(State& state) {
  MutexLock lock(state.mutex);
  if (state.closed) return;
  lock.unlock();
  GpuLoadReader reader(state.library, state.gpus, *state.clock);
  lock.lock();
  while (!state.closed) {
    lock.unlock();
    const TimePoint begin = state.clock->now();
    GpuLoads loads = reader.read();
    lock.lock();
    state.last = std::move(loads);
    state.sampled_at = begin;
    if (state.last.state == GpuLoads::State::off) return;
    state.changed.wait_until(lock, *state.clock, begin + period,
                             [&]() VMART_NO_THREAD_ANALYSIS { return state.closed; });
    if (begin + period - state.asked_at < watched) continue;
    state.asked = false;  // Whoever asks from here on is the next to want a sample.
    state.changed.wait(lock,
                       [&]() VMART_NO_THREAD_ANALYSIS { return state.closed || state.asked; });
  }
}

void GpuMonitor::work(const std::shared_ptr<State>& state) noexcept {
  std::string reason;
  try {
    sample(*state);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  const MutexLock lock(state->mutex);
  if (!reason.empty()) state->last = {GpuLoads::State::off, std::move(reason), TimePoint(-1), {}};
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace vma
