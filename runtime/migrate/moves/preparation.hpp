#pragma once

#include "base/mutex.hpp"
#include "migrate/copying/live_copiers.hpp"
#include "migrate/migration/stops.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace vma {

/// Creates what moves need before the first of them needs it: for gates the copier with its kernels
/// and the kernel that stops streams, once a GPU; for suspensions a context of the runtime's own,
/// in which it is tried whether they work, and what digests at a target. All take long, and loading
/// kernels waits for the work of the program, so threads of their own do it, a few for each GPU.
///
/// Any thread. What fails is only logged: the move that needs it meets the error.
class Preparation {
 public:
  /// Begins with what the first suspension of the process would have to do otherwise.
  Preparation(Memory& memory, LiveCopiers& copiers, Stops& stops);
  ~Preparation();  // Stops.
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  /// For moves of the memory that these attached streams may use. Does not block.
  void begin_for(Address scope) noexcept;
  /// For suspensions, on each GPU on which the program has a context, as this thread knows them.
  /// Does not block, and costs nothing once all is known. What could not be found out, for want of
  /// memory for example, is tried again by a later call.
  void begin_suspensions() noexcept;
  /// The same at each allocation and tick: no more often than every 10 ms, since GPUs on which the
  /// program has no context are asked about each time. Does not block.
  void begin_ahead() noexcept;
  /// What moves wanted and did not wait for: copiers that digest at the target. Does not block.
  void begin_wanted() noexcept;
  /// Blocks: until what has begun has ended. Requires: `stop` comes later.
  void await() noexcept;
  /// Begins no more. Blocks: until what has begun has ended.
  void stop() noexcept;

 private:
  /// In the order in which `stop` waits for them.
  enum class Kind {
    look,    ///< For the first suspension of the process; once, for all GPUs.
    gate,    ///< What moves at gates need; once a GPU.
    check,   ///< Whether work can be suspended.
    digest,  ///< What digests at a target.
  };
  struct Job {
    std::unique_ptr<Task> task;  // Null once a thread waits for its end.
    std::shared_ptr<std::atomic<bool>> ended;
  };

  static const char* name_of(Kind kind) noexcept;
  static void note(Kind kind, DeviceId device, const std::exception& error) noexcept;
  void begin(Kind kind, DeviceId device, std::function<void()> run) noexcept;
  void look_ahead() noexcept;
  void prepare(DeviceId device);
  void load_stopper(ContextHandle context);

  Memory& memory_;
  LiveCopiers& copiers_;
  Stops& stops_;
  std::atomic<bool> stopping_{false};
  std::atomic<TimePoint> next_ahead_{TimePoint(0)};
  Mutex mutex_;
  std::map<std::pair<Kind, DeviceId>, Job> jobs_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
