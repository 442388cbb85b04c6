#include "cpu_faults/former_handlers.hpp"

#include <vma/error.hpp>

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace vma {
namespace {

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

}  // namespace

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

}  // namespace vma
