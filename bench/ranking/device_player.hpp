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
#include <functional>
#include <memory>
#include <vector>

namespace vma {

/// One access for a device to perform.
struct PlayedAccess {
  std::shared_ptr<PlayedMemory> memory;  // Held for this access.
  std::uint64_t offset = 0, bytes = 0;
  double passes = 1;
  UseKind use = UseKind::read;
  std::function<void()> ended = {};  ///< Called by the device's thread when it has ended.
};

struct DeviceTally {
  std::uint64_t accesses = 0, launches = 0, bytes = 0;
};

/// A GPU that performs accesses, as kernels that read, in the order of arrival: one thread and one
/// attached stream. A few launches are enqueued ahead, about a millisecond in total, so that the
/// stream stops soon when a gate closes. Each launch reports its use.
class DevicePlayer {
 public:
  static constexpr std::size_t queue_max = 64;  ///< Number of waiting accesses, as in a replay.
  static constexpr std::size_t ahead_max = 8;   ///< Number of launches.

  /// Throws: Error.
  DevicePlayer(Runtime& runtime, Place gpu, std::uint64_t launch_bytes);
  /// Drops accesses that are still waiting.
  ~DevicePlayer();
  DevicePlayer(const DevicePlayer&) = delete;
  DevicePlayer& operator=(const DevicePlayer&) = delete;

  Place gpu() const noexcept { return gpu_; }
  Stream stream() const noexcept { return stream_; }
  /// Blocks: while `queue_max` accesses wait. Throws: the error of an earlier access; then this one
  /// is not taken.
  void push(PlayedAccess access);
  /// Does not wait, however many accesses do. Throws: as above.
  void push_all(std::vector<PlayedAccess> accesses);
  /// Throws: the error of an access, if one failed.
  void check();
  /// Blocks: until all accesses have ended. Throws: the error of an access, if one failed.
  DeviceTally finish();

 private:
  void work();
  /// Returns false at the end.
  bool take(PlayedAccess& access);
  void launch(const PlayedAccess& access);
  /// Waits for what was launched, lets go of the memory of accesses that have ended, and says so.
  void end_batch();
  void note_idle();
  bool is_queue_empty();
  void rethrow() VMART_REQUIRES(mutex_);

  Runtime& runtime_;
  const Place gpu_;
  const std::uint64_t launch_bytes_;
  Stream stream_ = nullptr;
  std::unique_ptr<AttachedStream> attached_;
  std::uint64_t* sum_ = nullptr;

  // Used only by the thread.
  std::vector<PlayedAccess> begun_;       // Launched completely, and not ended.
  std::size_t launched_ = 0, ahead_ = 1;  // In this batch; allowed ahead.
  std::chrono::steady_clock::time_point batch_begin_;

  Mutex mutex_;
  Condition changed_;
  std::deque<PlayedAccess> queue_ VMART_GUARDED_BY(mutex_);
  DeviceTally tally_ VMART_GUARDED_BY(mutex_);
  bool busy_ VMART_GUARDED_BY(mutex_) = false;  // Whether an access that was taken has not ended.
  bool stop_ VMART_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ VMART_GUARDED_BY(mutex_);
  ThreadedExecutor executor_;
  std::unique_ptr<Task> task_;
};

}  // namespace vma
