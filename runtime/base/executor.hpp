#pragma once

#include <functional>
#include <memory>
#include <string>

namespace vma {

/// A thread of the runtime or of a simulated machine.
class Task {
 public:
  /// Requires: joined or abandoned.
  virtual ~Task() = default;
  /// Blocks until the body has returned.
  virtual void join() = 0;
  /// Stops waiting for the body, which may never return and must own everything it uses. A stepped
  /// machine still waits, because it runs all its threads in turn.
  virtual void abandon() { join(); }
};

/// Starts every thread of the runtime, so that a simulated machine can step them all.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Debuggers show `name`, up to 15 bytes of it. `body` must not throw. Throws: Error{busy} if the
  /// system cannot start another thread; std::bad_alloc.
  virtual std::unique_ptr<Task> spawn(const std::string& name, std::function<void()> body) = 0;
};

/// Threads of the operating system. They take no signals of the program.
class ThreadedExecutor : public Executor {
 public:
  std::unique_ptr<Task> spawn(const std::string& name, std::function<void()> body) override;
};

/// The calling thread is inside the runtime: in a call of it, or a thread of it, even if code of
/// the program runs there. Such a thread may hold what the service of a CPU fault waits for.
class InsideRuntime {
 public:
  InsideRuntime() noexcept { depth_ = depth_ + 1; }
  ~InsideRuntime() { depth_ = depth_ - 1; }
  InsideRuntime(const InsideRuntime&) = delete;
  InsideRuntime& operator=(const InsideRuntime&) = delete;

  /// For handlers of faults, too: the first use on a thread may allocate, but no allocator touches
  /// memory of the runtime while it holds its locks.
  static bool here() noexcept { return depth_ > 0; }

 private:
  // Not of the initial-exec model: where NumPy or PyTorch have used up the static block of
  // thread-local memory, a library of that model cannot be loaded.
  static thread_local volatile int depth_;
};

}  // namespace vma
