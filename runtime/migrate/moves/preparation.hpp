#pragma once

#include "base/mutex.hpp"
#include "migrate/copying/live_copiers.hpp"

#include <atomic>
#include <map>
#include <memory>

namespace vma {

/// Creates what live moves off a GPU need before the first of them needs it: the copier with its
/// kernels, and the kernel that stops streams. Loading kernels waits for the work of the program,
/// so threads of their own do it, one for each GPU.
///
/// Any thread. What fails is only logged: the move that needs it meets the error.
class Preparation {
 public:
  explicit Preparation(Memory& memory, LiveCopiers& copiers);
  ~Preparation();  // Stops.
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  /// Begins it, unless it has begun for this GPU. Does not block.
  void begin(DeviceId device) noexcept;
  /// Begins no more. Blocks: until what has begun has ended.
  void stop() noexcept;

 private:
  void prepare(DeviceId device) noexcept;
  void load_stopper(ContextHandle context);

  Memory& memory_;
  LiveCopiers& copiers_;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  std::map<DeviceId, std::unique_ptr<Task>> tasks_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
