// Goal: what is none of the runtime's goes to the handler that was there before, as if the runtime
// were not there: with its mask and flags, once with SA_RESETHAND, and else to the default action.
// Method: children, since a process has one handler.
#include "cpu_faults/fault_signals.hpp"

#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <functional>

namespace vma {
namespace {

sigjmp_buf way_out;
volatile sig_atomic_t calls = 0, blocked = 0, with_info = 0;

void note_mask() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  blocked = (sigismember(&mask, SIGUSR1) << 1) | sigismember(&mask, SIGSEGV) |
            (sigismember(&mask, SIGUSR2) << 2);
}

void plain(int) {
  calls = calls + 1;
  note_mask();
  siglongjmp(way_out, 1);
}

void informed(int, siginfo_t* info, void* context) {
  calls = calls + 1;
  with_info = info->si_addr != nullptr && context != nullptr;
  note_mask();
  siglongjmp(way_out, 1);
}

void note_call(int) {
  calls = calls + 1;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  FormerHandlers::call(signal, info, context);
  note_mask();
}

void access() {
  static volatile char* const page = static_cast<char*>(
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  static_cast<void>(page[1]);
}

/// True if the handler of the test has run.
bool ends_in_handler(const std::function<void()>& body) {
  if (sigsetjmp(way_out, 1) != 0) return true;
  body();
  return false;
}

/// How the child ends that does this with a former handler.
int status_of(const struct sigaction& former, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    sigaction(SIGSEGV, &former, nullptr);
    FormerHandlers::replace_by(pass_on);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

class FormerHandlersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (under_sanitizer) GTEST_SKIP() << "sanitizers have handlers of their own, and fork badly";
  }
  struct sigaction former {};
};

TEST_F(FormerHandlersTest, APlainOneRunsWithItsMask) {
  former.sa_handler = plain;
  sigaddset(&former.sa_mask, SIGUSR1);
  EXPECT_EQ(status_of(former,
                      [] { return ends_in_handler(access) && calls == 1 && blocked == 3 ? 0 : 1; }),
            0);
}

TEST_F(FormerHandlersTest, OneWithInfoGetsItAndMayBeNested) {
  former.sa_sigaction = informed;
  former.sa_flags = SA_SIGINFO | SA_NODEFER;
  const auto body = [] {
    return ends_in_handler(access) && with_info == 1 && blocked == 0 && ends_in_handler(access) &&
                   calls == 2
               ? 0
               : 1;
  };
  EXPECT_EQ(status_of(former, body), 0);
}

TEST_F(FormerHandlersTest, InstalledAgainItIsNotItsOwn) {
  former.sa_handler = plain;
  EXPECT_EQ(status_of(former,
                      [] {
                        FormerHandlers::replace_by(pass_on);
                        return ends_in_handler(access) && calls == 1 ? 0 : 1;
                      }),
            0);
}

TEST_F(FormerHandlersTest, KeepsWhatTheThreadBlocks) {
  former.sa_handler = plain;
  EXPECT_EQ(status_of(former,
                      [] {
                        sigset_t mask;
                        sigemptyset(&mask);
                        sigaddset(&mask, SIGUSR2);
                        pthread_sigmask(SIG_BLOCK, &mask, nullptr);
                        return ends_in_handler(access) && blocked == 5 ? 0 : 1;
                      }),
            0);
}

TEST_F(FormerHandlersTest, BehindOneAllSignalsWaitAgain) {
  former.sa_handler = note_call;
  EXPECT_EQ(status_of(former,
                      [] {
                        raise(SIGSEGV);
                        return calls == 1 && blocked == 7 ? 0 : 1;
                      }),
            0);
}

TEST_F(FormerHandlersTest, OneForASingleUseRunsOnce) {
  former.sa_handler = plain;
  former.sa_flags = static_cast<int>(SA_RESETHAND);
  const int status = status_of(former, [] {
    if (!ends_in_handler(access)) return 1;
    access();
    return 2;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST_F(FormerHandlersTest, WithoutOneTheProcessEnds) {
  former.sa_handler = SIG_DFL;
  for (const auto& body :
       {std::function<void()>(access), std::function<void()>([] { kill(getpid(), SIGSEGV); })}) {
    const int status = status_of(former, [&] {
      body();
      return 2;
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  }
}

TEST_F(FormerHandlersTest, AnIgnoredSignalIsIgnoredUnlessItIsAFault) {
  former.sa_handler = SIG_IGN;
  const int sent = status_of(former, [] {
    kill(getpid(), SIGSEGV);
    return 3;
  });
  EXPECT_TRUE(WIFEXITED(sent) && WEXITSTATUS(sent) == 3) << sent;
  const int fault = status_of(former, [] {
    access();
    return 2;
  });
  EXPECT_TRUE(WIFSIGNALED(fault) && WTERMSIG(fault) == SIGSEGV) << fault;
}

}  // namespace
}  // namespace vma
