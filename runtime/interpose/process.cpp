#include "interpose/process.hpp"

#include "interpose/loader.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace vma::interpose {

namespace {

std::atomic<bool> used = false;
std::atomic<bool> forked_child = false;

}  // namespace

void note_driver_is_used() noexcept {
  used.store(true, std::memory_order_relaxed);
}

bool driver_is_used() noexcept {
  return used.load(std::memory_order_relaxed);
}

void watch_forks() noexcept {
  pthread_atfork(nullptr, nullptr, [] {
    if (driver_is_used()) forked_child.store(true);
  });
}

bool is_forked_child() noexcept {
  return forked_child.load(std::memory_order_relaxed);
}

void say(const char* format, ...) noexcept {
  char line[1024] = "vmart run: ";
  constexpr int begin = 11;
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line + begin, sizeof line - begin - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  const std::size_t size =
      begin + std::min(static_cast<std::size_t>(length), sizeof line - begin - 2);
  line[size] = '\n';
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line, size + 1);
}

// --- Crashes

namespace {

struct Library {
  std::uintptr_t inside = 0;  // An address by which it is found.
  std::uintptr_t begin = 0, end = 0;
  const char* name = "";

  bool has(std::uintptr_t address) const noexcept { return address >= begin && address < end; }
};

/// Filled before the handler is installed: a handler must not ask the loader, which may hold its
/// lock.
Library runtime, hooks;
bool can_walk = false;

struct Fatal {
  int number;
  const char* name;
};
constexpr Fatal fatal[] = {{SIGSEGV, "SIGSEGV"},
                           {SIGBUS, "SIGBUS"},
                           {SIGILL, "SIGILL"},
                           {SIGFPE, "SIGFPE"},
                           {SIGABRT, "SIGABRT"}};

int find_library(dl_phdr_info* info, std::size_t, void* wanted) noexcept {
  Library& library = *static_cast<Library*>(wanted);
  std::uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t from = info->dlpi_addr + segment.p_vaddr;
    begin = begin < from ? begin : from;
    end = end > from + segment.p_memsz ? end : from + segment.p_memsz;
  }
  if (library.inside < begin || library.inside >= end) return 0;
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  library.name = slash == nullptr ? info->dlpi_name : slash + 1;
  library.begin = begin;
  library.end = end;
  return 1;
}

std::uintptr_t place_of(const void* context) noexcept {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(registers.gregs[REG_RIP]);
#else
  return static_cast<std::uintptr_t>(registers.pc);
#endif
}

void report(const char* signal, const char* how, const Library& library,
            std::uintptr_t place) noexcept {
  say("%s %s (%s+0x%zx). This is a fault of vmart: please report this line with the output of "
      "`vmart doctor`. The program runs without vmart if VMART_RUN=off is set",
      signal, how, library.name, static_cast<std::size_t>(place - library.begin));
}

/// The hooks are on the stack of every call of the program, so what crashes below them may be the
/// program's or the driver's. The runtime is there only while vmart itself does something.
void report_if_ours(const char* signal, const void* context) noexcept {
  const std::uintptr_t place = place_of(context);
  for (const Library* const library : {&runtime, &hooks}) {
    if (library->has(place)) return report(signal, "in", *library, place);
  }
  if (!can_walk) return;
  std::array<void*, 48> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < count; ++i) {
    const auto frame = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    if (runtime.has(frame)) return report(signal, "in a call by", runtime, frame);
  }
}

/// Ends the process as it would end without vmart, even if the report crashes in turn.
void on_crash(int number, siginfo_t* info, void* context) noexcept {
  std::signal(number, SIG_DFL);
  const bool was_sent = info->si_code <= 0;
  // A signal from another process says nothing about what this thread does.
  if (!was_sent || info->si_pid == getpid()) {
    for (const Fatal& each : fatal) {
      if (each.number == number) report_if_ours(each.name, context);
    }
  }
  // A fault repeats when its instruction runs again, and keeps its address then. A signal that was
  // sent is sent once more, and arrives when the handler returns.
  if (was_sent) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

}  // namespace

void report_crashes(const void* inside) noexcept {
  runtime.inside = reinterpret_cast<std::uintptr_t>(inside);
  hooks.inside = reinterpret_cast<std::uintptr_t>(&report_crashes);
  for (Library* const library : {&runtime, &hooks}) {
    if (dl_iterate_phdr(find_library, library) == 0) return;
  }
  // Without this function (glibc before 2.35), walking the stack takes the loader's lock.
  can_walk = next_dlsym(RTLD_DEFAULT, "_dl_find_object") != nullptr;
  if (!can_walk) forget_loader_error();
  void* frame = nullptr;
  if (can_walk) backtrace(&frame, 1);  // The first walk loads a library; a handler must not.
  for (const Fatal& each : fatal) {
    struct sigaction action {};
    if (sigaction(each.number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL ||
        (action.sa_flags & SA_SIGINFO) != 0) {
      continue;
    }
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(each.number, &action, nullptr);
  }
}

// --- The exit

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
