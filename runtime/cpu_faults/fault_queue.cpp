#include "cpu_faults/fault_queue.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace vma {
namespace {

// By system call, because a signal handler may not use what the library waits with.
void sleep_while(const void* word, std::uint32_t value, const timespec* limit) noexcept {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit, nullptr, 0);
}

void wake_all(const void* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

static_assert(sizeof(std::atomic<CpuFault::Answer>) == sizeof(std::uint32_t) &&
                  std::atomic<CpuFault::Answer>::is_always_lock_free,
              "a futex is a word");

CpuFault::Answer FaultQueue::await(CpuFault& fault) noexcept {
  while (true) {
    const CpuFault::Answer answer = fault.answer.load(std::memory_order_acquire);
    if (answer != CpuFault::Answer::none) return answer;
    sleep_while(&fault.answer, static_cast<std::uint32_t>(CpuFault::Answer::none), nullptr);
  }
}

void FaultQueue::push(CpuFault& fault) noexcept {
  fault.next = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(fault.next, &fault, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  wake();
}

CpuFault* FaultQueue::take_all(std::chrono::nanoseconds limit) noexcept {
  const std::uint32_t seen = pushes_.load(std::memory_order_acquire);
  CpuFault* newest = newest_.exchange(nullptr, std::memory_order_acquire);
  if (newest == nullptr) {
    constexpr std::int64_t second = 1'000'000'000;
    timespec time{};
    time.tv_sec = static_cast<time_t>(limit.count() / second);
    time.tv_nsec = static_cast<long>(limit.count() % second);
    sleep_while(&pushes_, seen, &time);
    newest = newest_.exchange(nullptr, std::memory_order_acquire);
  }
  CpuFault* oldest = nullptr;
  while (newest != nullptr) {
    CpuFault* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

void FaultQueue::answer(CpuFault& fault, CpuFault::Answer answer) noexcept {
  const void* const word = &fault.answer;
  fault.answer.store(answer, std::memory_order_release);
  wake_all(word);  // The fault may be gone by now; then this wakes nobody, or somebody too early.
}

void FaultQueue::wake() noexcept {
  pushes_.fetch_add(1, std::memory_order_release);
  wake_all(&pushes_);
}

}  // namespace vma
