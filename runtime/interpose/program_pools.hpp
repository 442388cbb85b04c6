#pragma once

#include "interpose/limits.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/program_streams.hpp"

#include <vma/vmart.h>

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace vma::interpose {

/// A pool of vmart beside one of the driver's, for the large allocations that the program makes
/// from that. Any thread.
class ProgramPool {
 public:
  ProgramPool(ProgramMemory& memory, CUmemoryPool drivers, int device) noexcept
      : memory_(memory), drivers_(drivers), device_(device) {}
  /// The pool itself stays until `destroy`.
  ~ProgramPool();
  ProgramPool(const ProgramPool&) = delete;
  ProgramPool& operator=(const ProgramPool&) = delete;

  int device() const noexcept { return device_; }
  /// Null until `make` has succeeded.
  const vmart_pool* made() const noexcept { return pool_.load(std::memory_order_acquire); }
  /// Null if vmart refuses. Then the driver's pool is the only one.
  const vmart_pool* make() noexcept;
  /// Takes over the release threshold and the policies of reuse that the driver's pool has.
  void follow() noexcept;
  /// The value of an attribute that counts bytes; zero for others.
  std::uint64_t counted(CUmemPool_attribute attribute) noexcept;
  /// The high mark falls to the current value.
  void reset(CUmemPool_attribute attribute) noexcept;
  /// Gives free memory back until no more than `keep_bytes` are left. Returns what is left.
  std::uint64_t trim(std::uint64_t keep_bytes) noexcept;
  /// The program has waited for work: gives back what exceeds the release threshold. Returns false
  /// if frees are pending.
  bool settle() noexcept;
  /// As the driver's: its blocks stay valid until they are freed.
  void destroy() noexcept;

 private:
  vmart_pool_stats stats() const noexcept;

  ProgramMemory& memory_;
  const CUmemoryPool drivers_;
  const int device_;
  std::atomic<vmart_pool*> pool_ = nullptr;
  std::atomic<bool> refused_ = false;
  std::atomic<std::uint64_t> threshold_ = 0;
  std::mutex marks_mutex_;
  // vmart resets both high marks at once, so the one that the program keeps is kept here.
  std::uint64_t reserved_high_ = 0;
  std::uint64_t used_high_ = 0;
};

/// The pools of the program. All of them exist in the driver, whose handles name them; beside those
/// that vmart can serve, there is a pool of vmart (VMART_RUN_POOLS). Any thread.
class ProgramPools {
 public:
  ProgramPools(ProgramStreams& streams, ProgramMemory& memory, const Limits& limits) noexcept
      : streams_(streams), memory_(memory), limits_(limits) {}

  /// Allocates in the order of the stream, from the current pool of its GPU or from `pool`. Returns
  /// zero if the driver is to allocate: see `ProgramMemory::allocate`; also while the stream
  /// captures, and from a pool that vmart cannot serve. Stream zero is the legacy one. Sets `full`
  /// if the driver must not allocate it either, because a limit holds for both.
  CUdeviceptr allocate(std::size_t bytes, CUstream stream, const void* caller,
                       std::optional<CUmemoryPool> pool, bool& full) noexcept;
  /// The program has created the pool.
  void created(CUmemoryPool pool, const CUmemPoolProps& properties) noexcept;
  /// The pool of vmart beside it; null if it has none.
  std::shared_ptr<ProgramPool> find(CUmemoryPool pool) noexcept;
  /// Removes the pool of vmart beside it, because the handle may soon name another pool. Returns
  /// null if there is none.
  std::shared_ptr<ProgramPool> take(CUmemoryPool pool) noexcept;
  /// The driver has not destroyed it.
  void put_back(CUmemoryPool pool, std::shared_ptr<ProgramPool> taken) noexcept;
  /// The driver has destroyed it. Its blocks count until the program has freed them.
  void destroyed(const std::shared_ptr<ProgramPool>& taken) noexcept;

  /// See `ProgramPool::settle`.
  void settle() noexcept {
    if (memory_.pools_to_settle().load(std::memory_order_relaxed)) settle_all();
  }
  /// The GPU of the pool; `RoomNeed::nowhere` for one of host memory. None if it is not known:
  /// null, or imported from another process.
  std::optional<int> device_of(CUmemoryPool pool) noexcept;
  /// The bytes of vmart's pools on the GPU, free or not, with those that are destroyed.
  std::uint64_t bytes_of(int device) noexcept;
  /// Gives back all that is free on the GPU, because the driver has no room.
  void make_room(int device) noexcept;
  /// The stream is about to be destroyed. No pool asks whether its work has ended from now on.
  static void forget_stream(CUstream stream) noexcept;

 private:
  std::shared_ptr<ProgramPool> find_or_adopt(CUmemoryPool pool);
  std::vector<std::shared_ptr<ProgramPool>> all() noexcept;
  std::vector<std::shared_ptr<ProgramPool>> all_destroyed() noexcept;
  void settle_all() noexcept;

  ProgramStreams& streams_;
  ProgramMemory& memory_;
  const Limits& limits_;
  std::shared_mutex mutex_;
  // Null for those that vmart cannot serve.
  std::map<CUmemoryPool, std::shared_ptr<ProgramPool>> pools_;
  std::vector<std::shared_ptr<ProgramPool>> destroyed_;  // Some may be empty.
  std::map<CUmemoryPool, int> devices_;                  // Of those that the program has created.
};

}  // namespace vma::interpose
