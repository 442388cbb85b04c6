#include "cpu_faults/fault_signals.hpp"

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "base/process_exit.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <vma/error.hpp>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <string_view>

namespace vma {
namespace {

// By system call, because a signal handler may not use what the library waits with.
void sleep_while(const void* word, std::uint32_t value, const timespec* limit) noexcept {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit, nullptr, 0);
}

void wake_all(const void* word) noexcept {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

struct Former {
  int signal;
  struct sigaction action;      // Constant once the handler is installed.
  std::atomic<bool> used_up{};  // With SA_RESETHAND.
};

Former former[] = {{SIGSEGV, {}, {}}, {SIGBUS, {}, {}}};

Former& former_of(int signal) noexcept {
  return signal == SIGBUS ? former[1] : former[0];
}

/// By `kill` and the like, and not by an instruction that would fault again.
bool was_sent(const siginfo_t* info) noexcept {
  return info != nullptr && info->si_code <= 0;
}

void take_default_action(int signal, const siginfo_t* info) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  // Blocked until the handler returns. An access instead faults again where it stands.
  if (was_sent(info)) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
}

/// Of the interrupted thread, with what the former handler blocks besides.
sigset_t mask_for(const struct sigaction& action, int signal, const void* context) noexcept {
  sigset_t mask;
  sigemptyset(&mask);
  // The kernel fills only as many bytes.
  constexpr std::size_t kernel_mask_bytes = 8;
  if (context != nullptr) {
    std::memcpy(&mask, &static_cast<const ucontext_t*>(context)->uc_sigmask, kernel_mask_bytes);
  }
  sigorset(&mask, &mask, &action.sa_mask);
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&mask, signal);
  return mask;
}

struct ServedPlace {
  std::atomic<FaultServer*> server{nullptr};
  std::atomic<int> handlers{0};  // That may use the server.
};

constexpr std::size_t servers_max = 64;
std::array<ServedPlace, servers_max> places;

/// The process whose memory this is: 0 in a child that has a copy of it, whatever call forked it.
/// (Handlers of `fork` do not run for a raw `clone`.) Null if the kernel has no such memory.
std::atomic<std::atomic<int>*> owner{nullptr};

void own_memory() noexcept {
  if (owner.load() == nullptr) {
    constexpr std::size_t page_bytes = 4096;
    void* const page =
        mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, page_bytes, MADV_WIPEONFORK) == 0) {
      owner = ::new (page) std::atomic<int>(0);
    } else {
      munmap(page, page_bytes);
    }
  }
  if (std::atomic<int>* const known = owner) *known = ProcessExit::process();
}

bool is_of_parent(const FaultServer& server) noexcept {
  const std::atomic<int>* const known = owner;
  return server.process() != (known != nullptr ? known->load() : getpid());
}

/// One line for standard error, without the heap.
class Line {
 public:
  Line& operator<<(std::string_view text) noexcept {
    for (const char c : text) {
      if (length_ < text_.size()) text_[length_++] = c;
    }
    return *this;
  }
  Line& operator<<(Address address) noexcept {
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<char, 16> reversed{};
    std::size_t count = 0;
    std::uint64_t rest = to_integer(address);
    do reversed[count++] = digits[rest % 16];
    while ((rest /= 16) != 0);
    *this << "0x";
    while (count > 0) *this << std::string_view(&reversed[--count], 1);
    return *this;
  }
  void write() noexcept {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text_.data(), length_);
  }

 private:
  std::array<char, 512> text_{};
  std::size_t length_ = 0;
};

/// What the instruction does at the address. Unknown processors only load.
struct Instruction {
  bool writes = false, executes = false;
};

#if defined(__aarch64__)
std::uint64_t syndrome_of(const ucontext_t& context) noexcept {
  constexpr std::uint32_t syndrome_magic = 0x45535201;
  const auto* at = reinterpret_cast<const std::byte*>(context.uc_mcontext.__reserved);
  const auto* const end = at + sizeof(context.uc_mcontext.__reserved);
  while (at + 16 <= end) {
    const auto* const head = reinterpret_cast<const std::uint32_t*>(at);
    if (head[0] == syndrome_magic) return *reinterpret_cast<const std::uint64_t*>(at + 8);
    if (head[0] == 0 || head[1] == 0) break;
    at += head[1];
  }
  return 0;
}
#endif

Instruction instruction_at(const void* context) noexcept {
  if (context == nullptr) return {};
  [[maybe_unused]] const auto& at = *static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  const auto error = static_cast<std::uint64_t>(at.uc_mcontext.gregs[REG_ERR]);
  return {(error & 2) != 0, (error & 16) != 0};
#elif defined(__aarch64__)
  const std::uint64_t syndrome = syndrome_of(at);
  const std::uint64_t exception_class = syndrome >> 26;
  return {(syndrome & 64) != 0, exception_class == 0x20 || exception_class == 0x21};
#else
  return {};
#endif
}

/// Refuses by a line that says why and what helps. It names the allocation by its start, since its
/// tag may not be read here.
CpuFault::Answer refuse(Address address, Address allocation, std::string_view why) noexcept {
  Line line;
  line << "vmart: the CPU accessed " << address << ", in the allocation that starts at "
       << allocation << ", " << why << "\n";
  line.write();
  return CpuFault::Answer::refused;
}

CpuFault::Answer serve(FaultServer& server, Address address, bool writes) noexcept {
  const Address allocation = server.allocation_around(address);
  if (is_none(allocation)) return CpuFault::Answer::foreign;
  if (is_of_parent(server)) {
    return refuse(address, allocation,
                  "in a forked child, which has none of its parent's memory. Fork before opening a "
                  "runtime, or copy what the child needs to other memory first");
  }
  if (ProcessExit::begun()) {
    ProcessExit::hold_back();  // Async-signal-safe: reads atomics and sleeps.
    return refuse(address, allocation,
                  "while the process exits, when nothing can be fetched any more");
  }
  if (InsideRuntime::here()) {
    return refuse(address, allocation,
                  "inside a call, callback or hook of vmart, where the memory cannot be fetched. "
                  "Access it outside, or migrate it to a host node and hold a HostView first");
  }
  if (CopyScopes::here()) {
    return refuse(
        address, allocation,
        "inside a scope of copies, for which the move that fetches the memory would wait. "
        "Access it before the scope");
  }
  CpuFault fault;
  fault.address = address;
  fault.writes = writes;
  fault.thread = static_cast<int>(syscall(SYS_gettid));
  server.queue().push(fault);
  return FaultQueue::await(fault);
}

/// Whether a grant may cure it. Not if a process sent it, nor with what comes of bad memory, of an
/// address that is not aligned, or of a protection key.
bool lacks_access(const siginfo_t& info) noexcept {
  if (info.si_signo == SIGBUS) return info.si_code == BUS_ADRERR;
  return info.si_code == SEGV_MAPERR || info.si_code == SEGV_ACCERR;
}

CpuFault::Answer serve(const siginfo_t* info, const void* context) noexcept {
  if (info == nullptr || !lacks_access(*info)) return CpuFault::Answer::foreign;
  const Instruction instruction = instruction_at(context);
  if (instruction.executes) return CpuFault::Answer::foreign;
  const Address address = address_of(info->si_addr);
  for (ServedPlace& place : places) {
    place.handlers.fetch_add(1);
    FaultServer* const server = place.server.load();
    const CpuFault::Answer answer =
        server == nullptr ? CpuFault::Answer::foreign : serve(*server, address, instruction.writes);
    place.handlers.fetch_sub(1);
    if (answer != CpuFault::Answer::foreign) return answer;
  }
  return CpuFault::Answer::foreign;
}

void handle(int signal, siginfo_t* info, void* context) {
  const int number = errno;
  const CpuFault::Answer answer = serve(info, context);
  errno = number;
  if (answer == CpuFault::Answer::retry) return;
  FormerHandlers::call(signal, info, context);
}

Mutex& installing() {
  static Mutex mutex;
  return mutex;
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
  if (newest == nullptr && !closed_) {
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

void FaultQueue::close() noexcept {
  closed_ = true;
  wake();
}

void FaultQueue::wake() noexcept {
  pushes_.fetch_add(1, std::memory_order_release);
  wake_all(&pushes_);
}

void FormerHandlers::replace_by(void (*handler)(int, siginfo_t*, void*)) {
  for (Former& each : former) {
    struct sigaction action {};
    bool done = sigaction(each.signal, nullptr, &action) == 0;
    // From a call that failed after it; as a former handler of itself it would call itself.
    if (done && (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handler) continue;
    each.action = action;  // First, since the new handler may run as soon as it is installed.
    action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (each.action.sa_flags & SA_RESTART);
    // As for a page fault of the kernel, other signals wait. A handler that left by `longjmp`
    // would leave a request behind on a stack that is gone.
    sigfillset(&action.sa_mask);
    done = done && sigaction(each.signal, &action, nullptr) == 0;
    if (!done) {
      throw Error(ErrorKind::driver_failure, "vma::alloc",
                  std::string("sigaction: ") + std::strerror(errno));
    }
  }
}

void FormerHandlers::call(int signal, siginfo_t* info, void* context) noexcept {
  Former& before = former_of(signal);
  const struct sigaction& action = before.action;
  const bool with_info = (action.sa_flags & SA_SIGINFO) != 0;
  const bool ignores = !with_info && action.sa_handler == SIG_IGN;
  if (ignores && was_sent(info)) return;
  const bool once = (action.sa_flags & SA_RESETHAND) != 0;
  if (ignores || (!with_info && action.sa_handler == SIG_DFL) ||
      (once && before.used_up.exchange(true))) {
    return take_default_action(signal, info);
  }
  const sigset_t mask = mask_for(action, signal, context);
  sigset_t ours;
  pthread_sigmask(SIG_SETMASK, &mask, &ours);
  if (with_info) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
  pthread_sigmask(SIG_SETMASK, &ours, nullptr);
}

void FaultSignals::add(FaultServer& server) {
  static bool installed = false;
  const MutexLock lock(installing());
  ServedPlace* free = nullptr;
  for (ServedPlace& place : places) {
    // A handler may still look at what was there before.
    if (place.server.load() == nullptr && place.handlers.load() == 0) free = &place;
  }
  if (free == nullptr) {
    throw Error(ErrorKind::busy, "vma::alloc",
                "too many runtimes have memory with CpuAccess::fault; shut some down");
  }
  if (!installed) FormerHandlers::replace_by(handle);
  installed = true;
  own_memory();
  free->server.store(&server);
}

void FaultSignals::remove(FaultServer& server) noexcept {
  for (ServedPlace& place : places) {
    if (place.server.load() != &server) continue;
    place.server.store(nullptr);
    for (Poll poll; place.handlers.load() > 0;) poll.pause();
  }
}

}  // namespace vma
