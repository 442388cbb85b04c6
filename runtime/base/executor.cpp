#include "base/executor.hpp"

#include <pthread.h>

#include <thread>
#include <utility>

namespace vma {
namespace {

class ThreadTask : public Task {
 public:
  ThreadTask(const std::string& name, std::function<void()> body) : thread_(std::move(body)) {
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }
  void join() override { thread_.join(); }
  void abandon() override { thread_.detach(); }

 private:
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Task> ThreadedExecutor::spawn(const std::string& name, std::function<void()> body) {
  return std::make_unique<ThreadTask>(name, std::move(body));
}

}  // namespace vma
