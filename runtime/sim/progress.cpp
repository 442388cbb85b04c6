#include "sim/progress.hpp"

#include "base/clock.hpp"
#include "driver/native_codes.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {
constexpr int stuck_depth_max = 64;  // Length of a chain of works that wait for each other.
}

void Progress::announce() {
  changed.notify_all();
  for (Waiter* stream : sleepers_) stream->wake();
}

void Progress::add_sleeper(Waiter* stream) {
  sleepers_.push_back(stream);
}
void Progress::remove_sleeper(Waiter* stream) {
  std::erase(sleepers_, stream);
}

void Progress::set_fault(int native, const std::string& detail) {
  if (fault_ == 0) {
    fault_ = native;
    fault_detail_ = detail;
  }
  announce();
}

void Progress::check_fault(const char* call) const {
  if (fault_ != 0) throw driver_error(fault_, call, fault_detail_);
}

bool Progress::is_done(Completion& completion) {
  if (completion.done || completion.all_of.empty()) return completion.done;
  TimePoint last{0};
  for (const CompletionPtr& part : completion.all_of) {
    if (!is_done(*part)) return false;
    last = std::max(last, part->at);
  }
  for (const CompletionPtr& part : completion.all_of) completion.knows.join(part->knows);
  completion.all_of.clear();
  completion.at = last;
  return completion.done = true;
}

CompletionPtr Progress::joined(std::vector<CompletionPtr> parts) {
  auto completion = std::make_shared<Completion>();
  completion->done = parts.empty();
  completion->all_of = std::move(parts);
  return completion;
}

bool Progress::is_stuck(Completion& completion, int depth) {
  if (is_done(completion)) return false;
  if (depth > stuck_depth_max) return true;
  if (completion.stream != nullptr) return completion.stream->head_is_stuck(depth + 1);
  return std::any_of(completion.all_of.begin(), completion.all_of.end(),
                     [&](const CompletionPtr& part) { return is_stuck(*part, depth + 1); });
}

/// Tells the race detector that the calling host thread has observed the end.
void Progress::learn(const CompletionPtr& completion) {
  if (races_ != nullptr) races_->host_learns(completion->knows);
}

/// Waits in real time, because stuck work waits for a thread of this computer.
template <typename Ready>
bool Progress::changes_by(MutexLock& lock, TimePoint deadline, Ready ready) {
  if (deadline == never) return changed.wait(lock, ready), true;
  constexpr TimePoint longest = std::chrono::hours(24);
  SteadyClock real;
  const TimePoint left = std::clamp(deadline - clock_.now(), TimePoint(0), longest);
  const bool in_time = changed.wait_until(lock, real, real.now() + left, ready);
  if (!in_time) clock_.reached(deadline);
  return in_time;
}

bool Progress::await(MutexLock& lock, const CompletionPtr& completion, TimePoint deadline) {
  const auto ended = [&]() VMART_NO_THREAD_ANALYSIS { return is_done(*completion) || fault_ != 0; };
  if (clock_.stepped() != nullptr) {
    if (Stepper::current() == nullptr && !ended()) {
      throw Error(ErrorKind::invalid_argument, "SimDriver",
                  "a stepped machine blocks only threads that are inside SteppedThreads::run");
    }
    const bool in_time = changed.wait_until(lock, clock_, deadline, ended);
    if (in_time) learn(completion);
    return in_time;
  }
  for (;;) {
    changed.wait(lock, [&] { return ended() || is_stuck(*completion); });
    if (ended()) break;
    if (!changes_by(lock, deadline, [&] { return ended() || !is_stuck(*completion); })) {
      return false;
    }
  }
  if (fault_ != 0) return true;
  learn(completion);
  clock_.reached(std::min(deadline, completion->at));
  return completion->at <= deadline;
}

bool Progress::query(MutexLock& lock, const CompletionPtr& completion) {
  if (clock_.stepped() == nullptr) {
    changed.wait(lock, [&]() VMART_NO_THREAD_ANALYSIS {
      return is_done(*completion) || fault_ != 0 || is_stuck(*completion);
    });
  }
  const bool done = is_done(*completion) && completion->at <= clock_.now();
  if (done) learn(completion);
  return done;
}

}  // namespace vma
