#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace vma {

/// The parameters of kernels that the program launches by itself, by the handles that it launches
/// them with. To ask the driver for all of them costs a call each, so that what it said is kept.
///
/// Nobody tells when a module or library is unloaded, and the driver uses handles again: an unload
/// and the load of another module take 40 us (driver 580). So what is kept counts only if the
/// driver confirms it (`Driver::has_parameters`), and `forget` drops all of it. Any thread. No lock
/// is held while the driver is asked, and none is taken for the last kernels of a thread.
class KnownKernels {
 public:
  /// Beyond this a part of them is forgotten. One of 4 parameters takes 150 bytes.
  static constexpr std::size_t kernels_max = 16384;

  explicit KnownKernels(Driver& driver) noexcept;
  KnownKernels(const KnownKernels&) = delete;
  KnownKernels& operator=(const KnownKernels&) = delete;

  /// Stays until the thread's next call; null while the thread ends and its thread-local objects
  /// are gone. Throws: as `Driver::kernel_parameters`; then nothing is kept.
  const KernelParameters* parameters_of(const void* function);
  void forget() noexcept;
  std::size_t size() const;

 private:
  using Parameters = std::shared_ptr<const KernelParameters>;
  class ThreadKernels;

  static constexpr std::size_t shard_count = 16;

  struct alignas(64) Shard {  // A cache line each, for threads that launch at once.
    mutable Mutex mutex;
    std::unordered_map<const void*, Parameters> kernels VMART_GUARDED_BY(mutex);
  };

  Shard& shard_of(const void* function) noexcept;
  Parameters find_or_ask(const void* function, std::uint64_t generation);

  Driver& driver_;
  /// What a thread has of another generation does not count. No two of a process are the same, of
  /// whichever runtime.
  std::atomic<std::uint64_t> generation_;
  std::array<Shard, shard_count> shards_;
};

}  // namespace vma
