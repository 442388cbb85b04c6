// Goal: threads of the runtime leave the signals of the program alone. Method: one compares its
// mask with that of the thread that started it.
#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <pthread.h>

#include <csignal>

namespace vma {
namespace {

sigset_t own_mask() {
  sigset_t mask;
  sigemptyset(&mask);
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return mask;
}

TEST(ThreadedExecutor, StartsThreadsThatTakeOnlySignalsOfTheirOwnFaults) {
  const sigset_t before = own_mask();
  sigset_t of_thread;
  sigemptyset(&of_thread);
  ThreadedExecutor executor;
  executor.spawn("signals", [&of_thread] { of_thread = own_mask(); })->join();
  for (const int programs :
       {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF, SIGRTMIN}) {
    EXPECT_EQ(sigismember(&of_thread, programs), 1) << programs;
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    EXPECT_EQ(sigismember(&of_thread, fault), 0) << fault;
  }
  const sigset_t after = own_mask();
  for (int number = 1; number < NSIG; ++number) {
    EXPECT_EQ(sigismember(&after, number), sigismember(&before, number)) << number;
  }
}

}  // namespace
}  // namespace vma
