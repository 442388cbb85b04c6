#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "bench/ranking/played_memory.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

namespace vma {

/// One access that a device is to do.
struct PlayedAccess {
  std::shared_ptr<PlayedMemory> memory;  // Held for this access.
  std::uint64_t offset = 0, bytes = 0;
  double passes = 1;
  UseKind use = UseKind::read;
};

struct DeviceTally {
  std::uint64_t accesses = 0, launches = 0, bytes = 0;
};

/// A GPU that does accesses, as kernels that read, in the order in which they come: a thread and an
/// attached stream. A few launches are enqueued ahead, of at most about a millisecond together, so
/// that the stream soon stands when it is asked to. Each launch reports its use.
class DevicePlayer {
 public:
  static constexpr std::size_t queue_max = 64;  ///< Accesses that wait, as in a replay.
  static constexpr std::size_t ahead_max = 8;   ///< Launches.

  /// Throws: Error.
  DevicePlayer(Runtime& runtime, Location gpu, std::uint64_t launch_bytes);
  /// What still waits is not done.
  ~DevicePlayer();
  DevicePlayer(const DevicePlayer&) = delete;
  DevicePlayer& operator=(const DevicePlayer&) = delete;

  Location gpu() const noexcept { return gpu_; }
  Stream stream() const noexcept { return stream_; }
  /// Blocks: while `queue_max` wait. Throws: what an access failed with; the access is not taken.
  void push(PlayedAccess access);
  /// Blocks: until all that was pushed has ended. Throws: what one of them failed with.
  DeviceTally finish();

 private:
  void work();
  /// False: the end.
  bool take(PlayedAccess& access);
  void launch(const PlayedAccess& access);
  /// Waits for what was launched, and lets go of the memory of accesses that are over.
  void end_batch();
  void note_idle();
  bool is_queue_empty();
  void rethrow() VMART_REQUIRES(mutex_);

  Runtime& runtime_;
  const Location gpu_;
  const std::uint64_t launch_bytes_;
  Stream stream_ = nullptr;
  std::unique_ptr<AttachedStream> attached_;
  std::uint64_t* sum_ = nullptr;

  // The thread's own.
  std::vector<std::shared_ptr<PlayedMemory>> begun_;  // Accesses launched whole, not ended.
  std::size_t launched_ = 0, ahead_ = 1;              // Of this batch; allowed.
  std::chrono::steady_clock::time_point batch_begin_;

  Mutex mutex_;
  Condition changed_;
  std::deque<PlayedAccess> queue_ VMART_GUARDED_BY(mutex_);
  DeviceTally tally_ VMART_GUARDED_BY(mutex_);
  bool busy_ VMART_GUARDED_BY(mutex_) = false;  // Something taken has not ended.
  bool stop_ VMART_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ VMART_GUARDED_BY(mutex_);
  ThreadedExecutor executor_;
  std::unique_ptr<Task> task_;
};

}  // namespace vma
