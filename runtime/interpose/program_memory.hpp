#pragma once

#include "abi/run_table.hpp"
#include "interpose/limits.hpp"
#include "interpose/program_streams.hpp"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <vector>

namespace vma::interpose {

/// The largest chunk of vmart. An allocation up to this size is one chunk without padding.
inline constexpr std::size_t chunk_bytes_max = std::size_t{256} << 20;

/// Memory of vmart that the program takes for the driver's.
struct ProgramAllocation {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;            ///< As requested.
  int device = 0;                   ///< Where the program believes that it lies.
  CUcontext context = nullptr;      ///< None for that of a pool, as the driver has it.
  CUmemoryPool pool = nullptr;      ///< If it was allocated in the order of a stream.
  bool mapped = false;              ///< By the program itself; then it has no context.
  bool opened = false;              ///< It is another process's; see `MemoryHandles`.
  bool synchronous_copies = false;  ///< What the program set by CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
  vmart_exported* exported = nullptr;  ///< Serves it to other processes, by that name:
  vmart_ipc_name export_name{};
  unsigned long long id = 0;         ///< Unique in the process, as the driver's buffer ids are.
  vmart_pin* pin = nullptr;          ///< Of `pin_all`.
  vmart_pin* context_pin = nullptr;  ///< Its context has synchronous copies.

  /// Whether other processes can open it by a handle of cuIpcGetMemHandle.
  bool has_handles() const noexcept { return !mapped && !opened && pool == nullptr; }
  /// Whether cuMemFree frees it.
  bool is_freed_by_program() const noexcept { return !mapped && !opened; }
};

bool is_same(const vmart_ipc_name& a, const vmart_ipc_name& b) noexcept;

/// All of it. Any thread.
/// One owner: the locks of what is allocated, freed and kept in place have one order.
class ProgramMemory {
 public:
  ProgramMemory(ProgramStreams& streams, const Limits& limits) noexcept
      : streams_(streams), limits_(limits) {}

  /// Returns zero if the driver is to allocate: less than VMART_RUN_MIN_BYTES, for a library in
  /// VMART_RUN_EXCLUDE, without a current context, if there is no room, or if this process stands
  /// aside. Sets `full` if the driver must not be asked after vmart, which has tried all places: a
  /// limit holds for both. `caller` is a return address. Blocks: for memory.
  CUdeviceptr allocate(std::size_t bytes, const void* caller, bool& full) noexcept;
  /// Whether an allocation of that size by that caller can be vmart's.
  static bool takes(std::size_t bytes, const void* caller) noexcept;
  /// The program has it from now on. Sets its id, unless it has one. Returns false without memory
  /// for the list.
  bool add(ProgramAllocation& made) noexcept;
  /// vmart has refused to allocate. Disables vmart, unless the reason lies in this allocation.
  void note_refusal(vmart_status status) noexcept;
  /// Closes memory of another process that was opened there. Blocks: like cuMemFree.
  void free_opened(CUdeviceptr begin) noexcept;
  /// Removes what the program has mapped there, before it is unmapped: then another thread may map
  /// the same addresses. Returns it, so that the caller can add it again if the unmap fails.
  std::optional<ProgramAllocation> remove_mapped(CUdeviceptr begin) noexcept;
  /// Frees what begins there. Returns false if it is not vmart's. Blocks: like cuMemFree.
  bool free(CUdeviceptr begin) noexcept;
  /// The same after the work now enqueued on the stream, which does not capture. Stream zero is the
  /// legacy one. Blocks: only if vmart refuses that.
  bool free_in_order(CUdeviceptr begin, CUstream stream) noexcept;
  /// Frees what was allocated in the context, which is about to be destroyed.
  void free_all_of(CUcontext context) noexcept;
  /// The green context is about to be destroyed: what was allocated in it is the primary context's.
  void hand_over(CUcontext green) noexcept;
  /// Frees what pools of the device have.
  void free_all_of_pools(int device) noexcept;
  /// The allocation that contains the address.
  std::optional<ProgramAllocation> find(CUdeviceptr inside) noexcept;
  /// Whether any of it lies in the range that the program has not mapped itself. For the driver, it
  /// is ordinary memory, whose mappings no call may change.
  bool any_unmapped_by_program(CUdeviceptr begin, std::size_t bytes) noexcept;
  /// Disables vmart for that reason, and pins all memory. Blocks: until no chunk is being switched.
  void pin_all(const char* why) noexcept;
  /// What was and will be allocated in the context stays in place, or need not any more, because
  /// its copies are synchronous: that is asked for before a network card gets to know the memory.
  void pin_all(CUcontext context, bool wanted) noexcept;
  /// Whether all memory is pinned so.
  bool stays() const noexcept { return stays_.load(std::memory_order_acquire); }
  /// While the caller holds the lock, no `Pinned` exists that could pin what is being moved or
  /// unmapped. Frees do not wait for it: a move may wait for a capture, whose thread frees.
  /// Blocks: while another thread destroys a context or a module.
  std::unique_lock<std::shared_mutex> without_pinned() {
    return std::unique_lock<std::shared_mutex>(pinning_mutex_);
  }
  /// Called before a context is destroyed, once vmart was told: frees that began earlier still wait
  /// for its work. Blocks: until these have ended.
  void await_frees() noexcept { const std::lock_guard none_left(frees_mutex_); }
  /// While it exists, what the program has now does not move. Driver 580 may stop for ever if a
  /// context or a module is unloaded beside an unmap. Blocks: until no chunk is being switched.
  class Pinned {
   public:
    explicit Pinned(ProgramMemory& memory) noexcept;
    ~Pinned();
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

   private:
    ProgramMemory& memory_;
    std::shared_lock<std::shared_mutex> lock_, pinned_;
    std::vector<vmart_pin*> pins_;
  };
  /// Calls `allocate`, and again where it found no room beside a `Pinned`, which kept all memory in
  /// place: what moves away later makes room. Blocks: while another thread destroys a context or a
  /// module.
  template <typename Allocate>
  vmart_status with_room(Allocate&& allocate) noexcept {
    constexpr int tries_max = 16;  // A program may destroy contexts without end.
    for (int tries = 1;; ++tries) {
      const std::uint64_t gone = pinned_gone_.load();
      const vmart_status status = allocate();
      const bool beside_pinned = pinned_begun_.load() != gone;
      if (status != VMART_OUT_OF_MEMORY || !beside_pinned || tries == tries_max) return status;
      without_pinned();
    }
  }
  /// The memory stays in place from now on, because its physical location becomes known to others.
  /// Returns false if vmart refuses.
  bool note_export(CUdeviceptr inside, bool synchronous_copies) noexcept;
  /// It is exported from now on, as `known` says, until it is freed. Returns false if it was freed
  /// already.
  bool set_export(const ProgramAllocation& known) noexcept;
  /// Whether any of it is exported by that name.
  bool exports(const vmart_ipc_name& name) noexcept;
  /// What the program has allocated on the device, rounded to the driver's pages; without pools and
  /// what it maps itself.
  std::uint64_t bytes_of(int device) noexcept;
  /// Whether memory of a pool was freed since the pools settled.
  std::atomic<bool>& pools_to_settle() noexcept { return pools_to_settle_; }

 private:
  /// Null if there is none. Requires: the caller holds `mutex_`.
  ProgramAllocation* around(CUdeviceptr inside) noexcept;
  template <typename Chosen>
  std::optional<ProgramAllocation> take(CUdeviceptr begin, Chosen chosen) noexcept;
  void free_taken(ProgramAllocation freed) noexcept;
  template <typename Chosen>
  void free_all(Chosen chosen) noexcept;
  /// Notes the memory that a block lies in. Requires: the caller holds `mutex_`.
  void note_segment_of(CUdeviceptr block);
  /// Null if the driver is to allocate.
  void* allocate_at(std::size_t bytes, int device) noexcept;

  ProgramStreams& streams_;
  const Limits& limits_;
  std::atomic<bool> stays_ = false;
  std::atomic<bool> pools_to_settle_ = false;
  std::shared_mutex frees_mutex_;    // Shared by those who are in a free of vmart's.
  std::shared_mutex pinning_mutex_;  // Held before `mutex_`.
  std::shared_mutex pinned_mutex_;   // Shared by each `Pinned`, after `pinning_mutex_`.
  std::atomic<std::uint64_t> pinned_begun_{0}, pinned_gone_{0};  // How many `Pinned` there were.
  std::shared_mutex mutex_;
  std::map<CUdeviceptr, ProgramAllocation> allocations_;  // By their beginning.
  // Memory of vmart that blocks of pools lie in, with the pins of `pin_all`. Work may use
  // blocks after they were freed, so these are pinned and not the blocks. Some may be gone.
  std::map<CUdeviceptr, vmart_pin*> segments_;
  std::size_t segments_max_ = 16;    // At this size, those that are gone are removed.
  std::set<CUcontext> synchronous_;  // Contexts whose memory stays in place.
};

}  // namespace vma::interpose
