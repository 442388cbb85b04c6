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

/// The parameters of kernels that the program launches itself, by the handles that it launches them
/// with. Querying all of them costs a driver call each, so the answers are kept.
///
/// Unloading a module or library sends no notification, and the driver reuses handles: an unload
/// and the load of another module take 40 us (driver 580). So a kept answer is used only if the
/// driver confirms it (`Driver::has_parameters`), or if whoever unloads says so before
/// (`expect_told_unloads`), which saves a call of the driver for each launch. Any thread. No lock
/// is held during driver calls, and none is taken for the most recent kernels of a thread.
class KnownKernels {
 public:
  /// Beyond this some are forgotten. One of 4 parameters takes 150 bytes.
  static constexpr std::size_t kernels_max = 16384;

  explicit KnownKernels(Driver& driver) noexcept;
  KnownKernels(const KnownKernels&) = delete;
  KnownKernels& operator=(const KnownKernels&) = delete;

  /// Valid until the thread's next call; null while the thread ends and its thread-local objects
  /// are destroyed. Throws: as `Driver::kernel_parameters`; then nothing is kept.
  const KernelParameters* parameters_of(const void* function);
  /// Drops the answers of all tables of the process.
  static void forget() noexcept;
  /// Whether `forget` comes before each unload of the process from now on.
  static void expect_told_unloads(bool told) noexcept;
  std::size_t size() const;

 private:
  using Parameters = std::shared_ptr<const KernelParameters>;
  class ThreadKernels;

  static constexpr std::size_t shard_count = 16;

  struct alignas(64) Shard {  // A cache line each, for concurrent launches.
    mutable Mutex mutex;
    std::uint64_t forgets VMART_GUARDED_BY(mutex) = 0;  // When its answers were given.
    std::unordered_map<const void*, Parameters> kernels VMART_GUARDED_BY(mutex);
  };

  Shard& shard_of(const void* function) noexcept;
  bool is_same(const void* function, const KernelParameters& known);
  Parameters find_or_ask(const void* function, std::uint64_t now);

  Driver& driver_;
  const std::uint64_t number_;  // A thread may keep answers of other tables.
  std::array<Shard, shard_count> shards_;
};

}  // namespace vma
