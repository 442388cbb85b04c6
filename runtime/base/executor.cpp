#include "base/executor.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <pthread.h>

#include <system_error>
#include <thread>
#include <utility>

namespace vma {
namespace {

class ThreadTask : public Task {
 public:
  ThreadTask(const std::string& name, std::function<void()> body)
      : thread_([body = std::move(body)] {
          const InsideRuntime inside;
          body();
        }) {
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
