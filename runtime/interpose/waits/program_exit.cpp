#include "interpose/waits/program_exit.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <thread>

namespace vma::interpose {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<pid_t> process = 0;  // The first that made a call. Its children do not use the driver.
std::atomic<bool> exiting = false;
std::atomic<Clock::time_point> pause_end = Clock::time_point();
constinit thread_local bool runs_handlers = false;  // Or works for one that does.

}  // namespace

constinit thread_local int ProgramExit::depth_ = 0;
constinit thread_local ProgramExit::Slot* ProgramExit::slot_ = nullptr;
constinit std::array<ProgramExit::Slot, ProgramExit::slots_max> ProgramExit::slots_;

/// Gives the slot back when its thread ends.
struct ProgramExit::Lease {
  Slot* slot = nullptr;
  ~Lease() {
    if (slot != nullptr) slot->taken = false;
  }
};

void ProgramExit::take_slot() noexcept {
  static constinit Slot shared;
  static thread_local Lease lease;
  pid_t none = 0;
  process.compare_exchange_strong(none, getpid());
  come_first();
  slot_ = &shared;
  for (Slot& slot : slots_) {
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
    lease.slot = slot_ = &slot;
    return;
  }
}

void ProgramExit::begin() noexcept {
  if (slot_ == nullptr) {
    if (exiting.load()) runs_handlers = true;  // A handler has created it, and waits for it.
    take_slot();
  }
  slot_->inside.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (!exiting.load(std::memory_order_relaxed)) return;
  slot_->inside.store(false, std::memory_order_release);
  pause();
}

void ProgramExit::end() noexcept {
  slot_->inside.store(false, std::memory_order_release);
  if (exiting.load(std::memory_order_relaxed)) pause();
}

void ProgramExit::pause() noexcept {
  if (runs_handlers || process.load() != getpid()) return;
  std::this_thread::sleep_until(pause_end.load());
}

/// Handlers run in the reverse order of their registration, and CUDA's runtime registers its own
/// during the program's first calls. So the first call of each thread registers the handler again;
/// of many threads, only some do.
void ProgramExit::come_first() noexcept {
  static std::atomic<unsigned> threads = 0;
  constexpr unsigned always = 64;
  const unsigned number = ++threads;
  if (number <= always || std::has_single_bit(number)) std::atexit(&run);
}

void ProgramExit::run() noexcept {
  if (process.load() != getpid() || exiting.load()) return;
  runs_handlers = true;
  const Clock::time_point now = Clock::now();
  pause_end = now + pause_max;
  exiting = true;
  // Each thread has seen that by now, or shows that it is inside. Without it, a call is missed at
  // worst.
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
  const auto others_inside = [] {
    for (const Slot& slot : slots_) {
      if (&slot != slot_ && slot.inside.load(std::memory_order_acquire)) return true;
    }
    return false;
  };
  while (others_inside() && Clock::now() < now + calls_max) std::this_thread::yield();
}

}  // namespace vma::interpose
