#include "bench/ranking/device_player.hpp"

#include "bench/ranking/launch_cuts.hpp"
#include "support/read_kernel.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vma {
namespace {

constexpr std::chrono::milliseconds batch_time(1);
constexpr std::uint64_t pair_bytes = 16;  // The kernel reads this many bytes at a time.

}  // namespace

DevicePlayer::DevicePlayer(Runtime& runtime, Place gpu, std::uint64_t launch_bytes)
    : runtime_(runtime), gpu_(gpu), launch_bytes_(launch_bytes) {
  stream_ = runtime.make_stream(gpu);
  attached_ = std::make_unique<AttachedStream>(runtime, stream_);
  AllocOptions fixed;
  fixed.tag = "sum";
  fixed.movable = false;
  fixed.zeroed = true;
  sum_ = static_cast<std::uint64_t*>(runtime.alloc(sizeof *sum_, gpu, fixed));
  // Loads the kernel, which must not count as part of the run.
  const LaunchShape shape = read_shape();
  runtime.launch(stream_, read_kernel(), shape.grid, shape.block,
                 read_arguments(sum_, pair_bytes, 1, sum_));
  runtime.synchronize(stream_);
  task_ = executor_.spawn("trace_player", [this] { work(); });
}

DevicePlayer::~DevicePlayer() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    queue_.clear();
    changed_.notify_all();
  }
  task_->join();
  try {
    attached_.reset();
    runtime_.destroy_stream(stream_);
    runtime_.free(sum_);
  } catch (const std::exception&) {  // The run has already failed and reported why.
  }
}

void DevicePlayer::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

void DevicePlayer::push(PlayedAccess access) {
  MutexLock lock(mutex_);
  changed_.wait(lock,
                [this]() VMART_NO_THREAD_ANALYSIS { return queue_.size() < queue_max || error_; });
  rethrow();
  queue_.push_back(std::move(access));
  changed_.notify_all();
}

void DevicePlayer::push_all(std::vector<PlayedAccess> accesses) {
  const MutexLock lock(mutex_);
  rethrow();
  std::ranges::move(accesses, std::back_inserter(queue_));
  changed_.notify_all();
}

void DevicePlayer::check() {
  const MutexLock lock(mutex_);
  rethrow();
}

DeviceTally DevicePlayer::finish() {
  MutexLock lock(mutex_);
  changed_.wait(lock,
                [this]() VMART_NO_THREAD_ANALYSIS { return (queue_.empty() && !busy_) || error_; });
  rethrow();
  return tally_;
}

void DevicePlayer::work() {
  try {
    PlayedAccess access;
    while (take(access)) {
      launch(access);
      begun_.push_back(std::exchange(access, {}));
      if (launched_ < ahead_ && !is_queue_empty()) continue;
      // If there is nothing to launch ahead, releases finished memory: an allocation may be waiting
      // for its room.
      end_batch();
      note_idle();
    }
  } catch (...) {
    const MutexLock lock(mutex_);
    error_ = std::current_exception();
    queue_.clear();
    changed_.notify_all();
  }
}

bool DevicePlayer::take(PlayedAccess& access) {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() VMART_NO_THREAD_ANALYSIS { return !queue_.empty() || stop_; });
  if (stop_) return false;
  access = std::move(queue_.front());
  queue_.pop_front();
  busy_ = true;
  changed_.notify_all();
  return true;
}

bool DevicePlayer::is_queue_empty() {
  const MutexLock lock(mutex_);
  return queue_.empty();
}

/// The kernel reads whole pairs of words, starting at a multiple of their size.
void DevicePlayer::launch(const PlayedAccess& access) {
  const LaunchShape shape = read_shape();
  DeviceTally done{1, 0, 0};
  for (const LaunchCut& cut :
       cut_launches(access.offset, access.bytes, access.passes, launch_bytes_)) {
    if (launched_ >= ahead_) end_batch();
    if (launched_ == 0) batch_begin_ = std::chrono::steady_clock::now();
    const std::byte* const begin = access.memory->begin() + cut.offset;
    const Use use{begin, cut.bytes, gpu_, access.use, static_cast<float>(cut.passes)};
    const std::uint64_t aside = cut.offset % pair_bytes;
    runtime_.launch_using(stream_, read_kernel(), shape.grid, shape.block,
                          read_arguments(begin - aside, cut.bytes + aside, cut.passes, sum_),
                          {&use, 1});
    ++done.launches;
    done.bytes += cut.bytes * cut.passes;
    ++launched_;
  }
  const MutexLock lock(mutex_);
  tally_.accesses += done.accesses;
  tally_.launches += done.launches;
  tally_.bytes += done.bytes;
}

void DevicePlayer::end_batch() {
  runtime_.synchronize(stream_);
  const auto took = std::chrono::steady_clock::now() - batch_begin_;
  if (took > batch_time) ahead_ = std::max<std::size_t>(ahead_ / 2, 1);
  if (2 * took < batch_time && launched_ == ahead_) ahead_ = std::min(2 * ahead_, ahead_max);
  launched_ = 0;
  for (const PlayedAccess& access : std::exchange(begun_, {})) {
    access.memory->let_go(stream_);
    if (access.ended) access.ended();
  }
}

/// Nothing is in progress. If the queue is empty too, wakes a thread that waits in `finish`.
void DevicePlayer::note_idle() {
  const MutexLock lock(mutex_);
  if (!queue_.empty()) return;
  busy_ = false;
  changed_.notify_all();
}

}  // namespace vma
