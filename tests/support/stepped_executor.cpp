#include "support/stepped_executor.hpp"

#include "base/check.hpp"
#include "support/one_processor.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace vma {
namespace {

constexpr TimePoint yield_time{20};
/// After this many yields in a row that woke nobody, time advances to the next deadline.
constexpr unsigned idle_yields_max = 1'000;
/// After this many yields without a deadline, the poller waits for something that never comes.
constexpr unsigned hopeless_yields_max = 50'000'000;

}  // namespace

struct SteppedExecutor::Member {
  enum class State { runnable, waiting, finished };

  std::string name;
  std::uint64_t number = 0;
  State state = State::runnable;
  const std::function<bool()>* ready = nullptr;
  TimePoint deadline = never;
  bool timed_out = false;
  bool dead_locked = false;
  std::atomic<int> turn{0};  // The baton: 1 while this member has it.

  void await_turn() {
    while (turn.load(std::memory_order_acquire) == 0) turn.wait(0, std::memory_order_acquire);
    turn.store(0, std::memory_order_relaxed);
  }
};

namespace {
thread_local void* current_member = nullptr;  // A SteppedExecutor::Member.
}

class SteppedExecutor::MemberTask : public Task {
 public:
  MemberTask(SteppedExecutor& executor, std::shared_ptr<Member> member, std::unique_ptr<Task> task)
      : executor_(executor), member_(std::move(member)), task_(std::move(task)) {}

  void join() override {
    const auto await_end = [this] {
      executor_.wait([this] { return member_->state == Member::State::finished; }, never);
    };
    if (Stepper::current() == &executor_) {
      await_end();
    } else if (member_->state != Member::State::finished) {
      executor_.run(await_end);
    }
    task_->join();
  }

 private:
  SteppedExecutor& executor_;
  std::shared_ptr<Member> member_;
  std::unique_ptr<Task> task_;
};

SteppedExecutor::SteppedExecutor(const SteppedOptions& options)
    : random_(options.seed), yields_per_switch_(std::max(1u, options.yields_per_switch)) {}

SteppedExecutor::~SteppedExecutor() {
  VMART_CHECK(members_.empty(), "a thread of the executor was not joined");
}

void SteppedExecutor::run(const std::function<void()>& body) {
  if (main_ != nullptr || Stepper::current() != nullptr) {
    throw Error(ErrorKind::invalid_argument, "SteppedExecutor::run", "it is already running");
  }
  const OneProcessor one_processor;  // The threads of the run inherit this.
  const auto member = std::make_shared<Member>();
  member->name = "main";
  members_.push_back(member);
  main_ = member.get();
  current_member = member.get();
  set_current(this);
  struct Leave {
    SteppedExecutor* executor;
    ~Leave() {
      std::erase_if(executor->members_, [&](auto& it) { return it.get() == executor->main_; });
      executor->main_ = nullptr;
      current_member = nullptr;
      set_current(nullptr);
    }
  } leave{this};
  body();
}

std::unique_ptr<Task> SteppedExecutor::spawn(const std::string& name, std::function<void()> body) {
  if (Stepper::current() != this && main_ != nullptr) {
    throw Error(ErrorKind::invalid_argument, "SteppedExecutor::spawn",
                "a thread outside spawns while the executor runs");
  }
  auto member = std::make_shared<Member>();
  member->name = name;
  member->number = ++spawned_;
  members_.push_back(member);
  auto task = threads_.spawn(name, [this, member, work = std::move(body)] {
    member->await_turn();
    current_member = member.get();
    set_current(this);
    work();
    set_current(nullptr);
    retire(*member);
  });
  return std::make_unique<MemberTask>(*this, std::move(member), std::move(task));
}

void SteppedExecutor::retire(Member& member) {
  member.state = Member::State::finished;
  std::erase_if(members_, [&](auto& it) { return it.get() == &member; });
  Member* next = choose();
  if (next == nullptr) {
    main_->dead_locked = true;
    next = main_;
  }
  pass_to(*next);
}

void SteppedExecutor::yield() {
  auto* member = static_cast<Member*>(current_member);
  if (member == nullptr) return;
  now_ += yield_time;
  if (++idle_yields_ % idle_yields_max == 0) {
    TimePoint nearest = never;
    for (const auto& it : members_) {
      if (it->state == Member::State::waiting) nearest = std::min(nearest, it->deadline);
    }
    if (nearest != never) move_time_to(nearest);
    if (idle_yields_ >= hopeless_yields_max) {
      throw Error(ErrorKind::driver_failure, "SteppedExecutor",
                  fmt::format("deadlock: {} polls for something that never happens; {}",
                              member->name, dead_lock_report()));
    }
  } else if (random_() % yields_per_switch_ != 0) {
    return;
  }
  hand_over(*member);
}

void SteppedExecutor::give_way() {
  auto* member = static_cast<Member*>(current_member);
  if (member != nullptr) hand_over(*member);
}

bool SteppedExecutor::wait(const std::function<bool()>& ready, TimePoint deadline) {
  auto* member = static_cast<Member*>(current_member);
  if (ready()) return true;
  if (member == nullptr) {
    throw Error(ErrorKind::invalid_argument, "SteppedExecutor::wait",
                "a stepped machine blocks only threads that are inside run()");
  }
  if (deadline <= now_) return false;
  member->state = Member::State::waiting;
  member->ready = &ready;
  member->deadline = deadline;
  member->timed_out = false;
  hand_over(*member);
  return !member->timed_out;
}

void SteppedExecutor::sleep(TimePoint duration) {
  if (duration <= TimePoint::zero()) return;
  if (current_member == nullptr) return move_time_to(now_ + duration);
  wait([] { return false; }, now_ + duration);
}

/// Passes the baton to the next member and returns when it comes back.
void SteppedExecutor::hand_over(Member& from) {
  Member* next = choose();
  if (next == nullptr) {
    main_->dead_locked = true;
    next = main_;
  }
  if (next != &from) {
    pass_to(*next);
    from.await_turn();
  }
  if (from.dead_locked) {
    const std::string who = dead_lock_report();
    from.dead_locked = false;
    from.state = Member::State::runnable;
    throw Error(ErrorKind::driver_failure, "SteppedExecutor", "deadlock: " + who);
  }
}

void SteppedExecutor::pass_to(Member& member) {
  // An exchange, not a store: `notify_one` looks for sleepers without a fence of its own (libstdc++
  // 12), so that a store that is not yet visible could leave one asleep forever.
  member.turn.exchange(1, std::memory_order_seq_cst);
  member.turn.notify_one();
}

/// Whether the member could run now. Sets `timed_out` to how its wait would end.
bool SteppedExecutor::refresh(Member& member) const {
  switch (member.state) {
    case Member::State::runnable: return true;
    case Member::State::finished: return false;
    case Member::State::waiting: break;
  }
  const bool ready = (*member.ready)();
  member.timed_out = !ready;
  return ready || member.deadline <= now_;
}

SteppedExecutor::Member* SteppedExecutor::choose() {
  for (;;) {
    std::vector<Member*> able;
    TimePoint nearest = never;
    for (const auto& member : members_) {
      if (refresh(*member))
        able.push_back(member.get());
      else
        nearest = std::min(nearest, member->deadline);
    }
    if (able.empty()) {
      if (nearest == never) return nullptr;
      move_time_to(nearest);
      continue;
    }
    Member* chosen = able.front();
    if (able.size() > 1) {
      chosen = able[random_() % able.size()];
      hash_ = (hash_ ^ (chosen->number + 1)) * 0x100000001b3ull;
      ++choices_;
    }
    if (chosen->state == Member::State::waiting) idle_yields_ = 0;
    chosen->state = Member::State::runnable;
    return chosen;
  }
}

void SteppedExecutor::move_time_to(TimePoint time) {
  now_ = std::max(now_, time);
}

std::string SteppedExecutor::dead_lock_report() const {
  std::string text = "no thread can run and no deadline is left; waiting:";
  for (const auto& member : members_) text += fmt::format(" {}", member->name);
  return text;
}

}  // namespace vma
