#include "memory/pressure.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace vma {
namespace {

/// Counts a waiting move for a scope.
class Waiting {
 public:
  explicit Waiting(std::atomic<std::size_t>& count) : count_(count) { ++count_; }
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::atomic<std::size_t>& count_;
};

}  // namespace

void MemoryPressure::set(Presser presser) {
  presser_.set(presser ? std::make_shared<Presser>(std::move(presser)) : nullptr);
}

bool MemoryPressure::Want::operator()(Place at, std::uint64_t size_bytes) {
  constexpr std::chrono::milliseconds pause(1);
  if (!asks_for(at) || !pressure_.presser_.any() || pressure_.limit_.count() <= 0) return false;
  std::optional<Waiting> waiting;
  if (asks_ == Asks::a_move) waiting.emplace(pressure_.waiting_);
  const TimePoint now = pressure_.clock_.now();
  if (until_ == never) {
    until_ = now + pressure_.limit_;
  } else {
    // The last answer promised more room than there is: a presser that always says yes must not
    // keep this thread spinning.
    pressure_.nap_until(std::min(until_, now + pause));
  }
  if (pressure_.clock_.now() >= until_) return false;
  Answer answer = Answer::nothing_leaves;
  try {
    pressure_.presser_.tell([&](Presser& presser) { answer = presser(at, size_bytes, until_); });
  } catch (const std::exception& error) {
    log(LogLevel::warn, "cannot evict anything at {}: {}", to_string(at), error.what());
    return false;
  }
  return answer == Answer::some_left ||
         (answer == Answer::others_at_work && asks_ == Asks::an_allocation);
}

void MemoryPressure::nap_until(TimePoint time) {
  Mutex mutex;
  Condition nobody;
  MutexLock lock(mutex);
  nobody.wait_until(lock, clock_, time, [] { return false; });
}

}  // namespace vma
