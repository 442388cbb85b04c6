#include "telemetry/gpu_monitor.hpp"

#include "base/process_exit.hpp"

#include <vma/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

namespace vma {

/// Shared with the thread, which may return from the library after the monitor was destroyed.
struct GpuMonitor::State {
  std::shared_ptr<Clock> clock;
  std::vector<NamedGpu> gpus;
  std::string library;
  std::chrono::nanoseconds patience{0};
  pid_t process = 0;  // Constant once the thread runs, as are the members above.
  Mutex mutex;
  Condition changed;
  GpuLoads last VMART_GUARDED_BY(mutex);
  TimePoint sampled_at VMART_GUARDED_BY(mutex){-1};
  TimePoint asked_at VMART_GUARDED_BY(mutex){0};
  bool asked VMART_GUARDED_BY(mutex) = false;
  bool closed VMART_GUARDED_BY(mutex) = false;
  bool ended VMART_GUARDED_BY(mutex) = false;
  std::unique_ptr<Task> thread VMART_GUARDED_BY(mutex);  // Null until the first query.

  /// Ends the thread, or abandons it. Blocks: like ~GpuMonitor.
  void end();
  /// Requires: the thread was started. Returns false if the thread is still in the library.
  bool close();
};

/// The monitors whose threads use the library. Closes them at process exit, before the library's
/// own statics are destroyed. Never destroyed, because it is used during static destruction itself.
class GpuMonitor::AtExit {
 public:
  /// Requires: the library has constructed its statics, so that the exit handler registered here
  /// runs before their destructors. Returns false if the process is exiting.
  static bool enlist(const std::shared_ptr<State>& state);
  static void strike(const std::shared_ptr<State>& state);

 private:
  static AtExit& of_process();
  void end() noexcept;

  std::atomic<pid_t> process_{0};
  Mutex mutex_;
  bool over_ VMART_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<State>> states_ VMART_GUARDED_BY(mutex_);
};

GpuMonitor::AtExit& GpuMonitor::AtExit::of_process() {
  static Immortal<AtExit> one;
  return *one;
}

bool GpuMonitor::AtExit::enlist(const std::shared_ptr<State>& state) {
  AtExit& all = of_process();
  {
    const MutexLock lock(all.mutex_);
    if (all.over_) return false;
    all.states_.push_back(state);
    all.process_ = state->process;
  }
  static const bool prepared = std::atexit([] { of_process().end(); }) == 0;
  return prepared;
}

void GpuMonitor::AtExit::strike(const std::shared_ptr<State>& state) {
  AtExit& all = of_process();
  const MutexLock lock(all.mutex_);
  std::erase(all.states_, state);
}

void GpuMonitor::AtExit::end() noexcept {
  // A forked child has its parent's monitors, but not their threads, and a mutex may be locked
  // forever.
  const pid_t here = getpid();
  if (process_ != here) return;
  ProcessExit::begin();  // Resumes all stopped work before waiting for the library.
  std::vector<std::shared_ptr<State>> states;
  {
    const MutexLock lock(mutex_);
    over_ = true;
    states.swap(states_);
  }
  for (const auto& state : states) {
    if (state->process == here) state->end();
  }
}

void GpuMonitor::State::end() {
  std::unique_ptr<Task> started;
  {
    const MutexLock lock(mutex);
    started = std::move(thread);
  }
  if (!started) return;
  if (close()) {
    started->join();
  } else {
    started->abandon();
  }
}

bool GpuMonitor::State::close() {
  MutexLock lock(mutex);
  closed = true;
  changed.notify_all();
  // Real time, because the library's calls take real time whatever clock the samples use.
  SteadyClock wall;
  return changed.wait_until(lock, wall, wall.now() + patience,
                            [this]() VMART_NO_THREAD_ANALYSIS { return ended; });
}

GpuMonitor::GpuMonitor(Executor& executor, std::shared_ptr<Clock> clock, std::vector<NamedGpu> gpus,
                       std::string library, std::string why_not, std::chrono::nanoseconds patience)
    : executor_(executor), state_(std::make_shared<State>()) {
  state_->clock = std::move(clock);
  state_->gpus = std::move(gpus);
  state_->library = std::move(library);
  state_->patience = patience;
  const MutexLock lock(state_->mutex);
  if (state_->library.empty()) {
    state_->last.reason = std::move(why_not);
  } else {
    state_->last.state = GpuLoads::State::starting;
  }
}

GpuMonitor::~GpuMonitor() {
  state_->end();
}

GpuLoads GpuMonitor::loads() {
  const MutexLock lock(state_->mutex);
  GpuLoads answer = state_->last;
  if (answer.state == GpuLoads::State::off || state_->closed) return answer;
  const TimePoint now = state_->clock->now();
  try {
    if (!state_->thread) {
      if (Stepper::current() != nullptr) {
        throw Error(ErrorKind::unsupported, "NVML", "the machine is stepped, and no library is");
      }
      state_->process = getpid();
      state_->thread = executor_.spawn("vmart nvml", [state = state_] { work(state); });
    }
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

/// Runs until the monitor is closed or the library has no values. Does not hold the lock during
/// calls of the library.
void GpuMonitor::sample(const std::shared_ptr<State>& shared) {
  State& state = *shared;
  MutexLock lock(state.mutex);
  if (state.closed) return;
  lock.unlock();
  const NvmlLibrary library(state.library);
  if (!AtExit::enlist(shared)) return;
  GpuLoadReader reader(library, state.gpus, *state.clock);
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
    state.asked = false;  // The next query requests another sample.
    state.changed.wait(lock,
                       [&]() VMART_NO_THREAD_ANALYSIS { return state.closed || state.asked; });
  }
}

void GpuMonitor::work(const std::shared_ptr<State>& state) noexcept {
  std::string reason;
  try {
    sample(state);
  } catch (const std::exception& error) {
    try {
      reason = error.what();
    } catch (const std::bad_alloc&) {
      reason = "no host memory";  // Short enough to need none.
    }
  }
  {
    const MutexLock lock(state->mutex);
    if (!reason.empty()) state->last = {GpuLoads::State::off, std::move(reason), TimePoint(-1), {}};
    state->ended = true;
    state->changed.notify_all();
  }
  AtExit::strike(state);
}

}  // namespace vma
