#include "base/process_exit.hpp"

#include "base/clock.hpp"
#include "base/loader/loaded_library.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// How long to wait for a mutex that another thread held when this process was forked.
constexpr std::chrono::milliseconds lock_limit(500);

/// How long a second thread that exits waits for the first.
constexpr std::chrono::seconds other_limit(5);

std::atomic<bool> claimed{false};
std::atomic<std::thread::id> exiting_thread{};
std::atomic<TimePoint> began{TimePoint(0)};
std::atomic<pid_t> acting_process{0};  // The last process that created an action.

TimePoint wall_now() {
  return SteadyClock().now();
}

}  // namespace

std::atomic<bool> ProcessExit::begun_{false};
std::atomic<bool> ProcessExit::closed_{false};
ThreadParts<std::atomic<int>> ProcessExit::calls_;
std::atomic<int> ProcessExit::process_{0};

struct ProcessExit::Action::State {
  State(Stage when, std::function<void()> what) : stage(when), run(std::move(what)) {}
  const Stage stage;
  const std::function<void()> run;
  const pid_t process = getpid();
  std::recursive_mutex running;  // Recursive, because an action may destroy itself.
  bool over = false;             // Guarded by `running`.
};

/// The actions of the process, in the order of creation. Never destroyed, since it is used during
/// static destruction. Its mutex is no step of a stepped machine: some actions are created once per
/// process, so the steps of a run would not depend on its seed alone.
struct ProcessExit::List {
  std::mutex mutex;
  std::vector<std::shared_ptr<Action::State>> states;  // Guarded by `mutex`.

  static List& of_process() {
    static Immortal<List> one;
    return *one;
  }

  void add(const std::shared_ptr<Action::State>& state) {
    {
      const std::lock_guard lock(mutex);
      states.push_back(state);
    }
    acting_process = state->process;
    process();  // Ensures that a forked child resets its state.
    come_first();
  }

  std::vector<std::shared_ptr<Action::State>> of_stage(Stage stage) {
    std::vector<std::shared_ptr<Action::State>> found;
    SteadyClock wall;
    if (!poll_until(wall, wall.now() + lock_limit, [&] { return mutex.try_lock(); })) return found;
    for (const auto& state : states) {
      if (state->stage == stage && state->process == getpid()) found.push_back(state);
    }
    mutex.unlock();
    std::ranges::reverse(found);
    return found;
  }
};

ProcessExit::Action::Action(Stage stage, std::function<void()> run)
    : state_(std::make_shared<State>(stage, std::move(run))) {
  List::of_process().add(state_);
}

void ProcessExit::act_once(std::atomic<int>& created, Stage stage, void (*run)()) {
  const int here = process();
  if (created.exchange(here) == here) return;
  try {
    List::of_process().add(std::make_shared<Action::State>(stage, run));
  } catch (...) {
    created = 0;  // The next call tries it again.
    throw;
  }
}

ProcessExit::Action::~Action() {
  if (state_->process != getpid()) return;
  List& list = List::of_process();
  {
    const std::lock_guard lock(list.mutex);
    std::erase(list.states, state_);
  }
  const std::lock_guard running(state_->running);
  state_->over = true;
}

int ProcessExit::find_process() noexcept {
  static const int failed = pthread_atfork(nullptr, nullptr, [] {
    // The threads that were inside the driver do not exist in the child.
    calls_.for_each([](std::atomic<int>& calls) { calls = 0; });
    process_ = getpid();
  });
  if (failed == 0) process_ = getpid();
  return getpid();
}

void ProcessExit::come_first() noexcept {
  static std::atomic<unsigned long long> seen{0};
  const unsigned long long loaded = libraries_loaded();
  if (begun() || seen.exchange(loaded) == loaded) return;
  static_cast<void>(std::atexit([] { begin(); }));
  static const int quick = std::at_quick_exit([] { begin(); });
  static_cast<void>(quick);
}

void ProcessExit::run(Stage stage) noexcept {
  try {
    for (const auto& state : List::of_process().of_stage(stage)) {
      const std::lock_guard running(state->running);
      if (!state->over) state->run();
    }
  } catch (...) {  // Out of memory; skips the rest.
  }
}

void ProcessExit::begin() noexcept {
  SteadyClock wall;
  if (claimed.exchange(true)) {
    if (exiting_thread.load() == std::this_thread::get_id()) return;
    // Returning would let this thread run later handlers, which may be the driver's.
    poll_until(wall, wall.now() + other_limit, [] { return closed_.load(); });
    return;
  }
  began = wall_now();
  exiting_thread = std::this_thread::get_id();
  begun_ = true;
  // A forked child has its parent's actions, but not their threads, and a mutex may be locked
  // forever.
  if (acting_process == getpid()) {
    run(Stage::open_stops);
    run(Stage::let_copies_go);
    run(Stage::write_files);
  }
  closed_ = true;
  if (acting_process != getpid()) return;
  poll_until(wall, wall.now() + calls_limit, [] {
    return calls_.all([](const std::atomic<int>& calls) { return calls.load() == 0; });
  });
}

bool ProcessExit::elsewhere() noexcept {
  return begun() && std::this_thread::get_id() != exiting_thread.load();
}

void ProcessExit::stand_still() noexcept {
  if (!elsewhere() || Stepper::current() != nullptr) return;
  const TimePoint left = began.load() + grace - wall_now();
  if (left > TimePoint(0)) std::this_thread::sleep_for(left);
}

}  // namespace vma
