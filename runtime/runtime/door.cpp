#include "runtime/door.hpp"

namespace vma {

Door::Counter* Door::enter() noexcept {
  Counter& counter = counters_.own();
  std::uint64_t state = counter.state.load(std::memory_order_relaxed);
  while ((state & closed) == 0) {
    if (counter.state.compare_exchange_weak(state, state + one_call, std::memory_order_acquire)) {
      return &counter;
    }
  }
  return nullptr;
}

void Door::leave(Counter& counter) noexcept {
  std::uint64_t state = counter.state.load(std::memory_order_relaxed);
  while ((state & closed) == 0) {
    if (counter.state.compare_exchange_weak(state, state - one_call, std::memory_order_release)) {
      return;  // The door may be destroyed now.
    }
  }
  leave_closed(counter);
}

void Door::leave_closed(Counter& counter) noexcept {
  const MutexLock lock(mutex_);
  counter.state.fetch_sub(one_call, std::memory_order_release);
  left_.notify_all();
}

void Door::stop_accepting() noexcept {
  counters_.for_each([](Counter& counter) { counter.state.fetch_or(closed); });
}

void Door::finish() noexcept {
  MutexLock lock(mutex_);
  left_.wait(lock, [this] {
    return counters_.all([](const Counter& counter) {
      return counter.state.load(std::memory_order_acquire) == closed;
    });
  });
}

}  // namespace vma
