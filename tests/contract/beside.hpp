#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <utility>

namespace vma {

/// A call on a thread of its own, which may block until the test removes the cause. The destructor
/// joins the thread: declare this object before what the call waits for.
class Beside {
 public:
  explicit Beside(std::function<void()> body)
      : result_(std::async(std::launch::async, std::move(body))) {}
  /// Waits for a long time: a call may create a context, which takes a good part of a second.
  bool returns() { return result_.wait_for(std::chrono::seconds(10)) == std::future_status::ready; }
  /// Whether the call has not returned after a time that is long for any call that does not wait.
  bool stands() {
    return result_.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready;
  }
  /// Throws what the call threw.
  void join() { result_.get(); }

 private:
  std::future<void> result_;
};

}  // namespace vma
