#include "base/executor.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace vma {
namespace {

/// Threads that start while it exists get no signals but those of their own faults. The others are
/// the program's: it may have blocked them in all threads that it knows, and its handlers may rely
/// on running there.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t others;
    sigfillset(&others);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) {
      sigdelset(&others, fault);
    }
    pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

class ThreadTask : public Task {
 public:
  ThreadTask(const std::string& name, std::function<void()> body) {
    const SignalsBlocked inherited;
    thread_ = std::thread([body = std::move(body)] {
      const InsideRuntime inside;
      body();
    });
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }
  void join() override { thread_.join(); }
  void abandon() override { thread_.detach(); }

 private:
  std::thread thread_;
};

}  // namespace

thread_local volatile int InsideRuntime::depth_ = 0;

std::unique_ptr<Task> ThreadedExecutor::spawn(const std::string& name,
                                              std::function<void()> body) try {
  return std::make_unique<ThreadTask>(name, std::move(body));
} catch (const std::system_error& error) {
  throw Error(ErrorKind::busy, "pthread_create",
              fmt::format("the thread \"{}\" cannot be started: {}; end some threads, or raise the "
                          "limit (ulimit -u, or pids.max of the container)",
                          name, error.what()));
}

}  // namespace vma
