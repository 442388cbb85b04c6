#pragma once

#include <atomic>

namespace vma {

/// What the program wants to do before its attached streams are stopped for a move: it may detach
/// those that are idle, since each one makes it harder to stop all of them together. One call for
/// the process. Any thread.
class BeforeStops {
 public:
  using Call = void (*)(void* data);

  static BeforeStops& of_process() noexcept {
    static auto& only = *new BeforeStops;  // Threads may use it until the end.
    return only;
  }

  /// Null: nothing is called from now on, except by threads that have begun to call it.
  void set(Call call, void* data) noexcept {
    call_.store(nullptr);
    data_.store(data);
    call_.store(call);
  }
  /// Requires: the calling thread has stopped nothing and uses no streams.
  void call() const noexcept {
    if (const Call call = call_.load()) call(data_.load());
  }

 private:
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> data_{nullptr};
};

}  // namespace vma
