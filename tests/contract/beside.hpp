#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <utility>

namespace vma {

/// A call on a thread of its own, which may stand until the test lets its cause go. Joined by the
/// destructor: declare it before what it waits for.
class Beside {
 public:
  explicit Beside(std::function<void()> body)
      : result_(std::async(std::launch::async, std::move(body))) {}
  /// Waits long: a call may make a context, which takes a good part of a second.
  bool returns() { return result_.wait_for(std::chrono::seconds(10)) == std::future_status::ready; }
  /// Has not returned after a while that is long for any call that waits for nothing.
  bool stands() {
    return result_.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready;
  }
  /// Throws what the call threw.
  void join() { result_.get(); }

 private:
  std::future<void> result_;
};

}  // namespace vma
