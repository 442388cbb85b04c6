#pragma once

#include "memory/memory.hpp"
#include "migrate/copying/digest.hpp"
#include "migrate/gates/pinned_words.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace vma {

/// How the kernels of live copies are sized. docs/results/live_moves.md lists what each choice
/// costs the application and the move.
struct LiveTuning {
  std::uint64_t tiles_per_granule = 8;  ///< 256 KiB if a granule is 2 MiB.
  unsigned copy_blocks = 32;            ///< With the whole copy share: more are no faster.
  unsigned settle_blocks_per_multiprocessor = 4;  ///< Many: the application is stopped.
};

/// Copies chunks off one GPU while the application uses them, and settles what has changed since.
///
///     take_bay -> start_copy -> ended_by -> settle -> ended_by -> leave_bay
///
/// Each bay holds one chunk in progress. Copies run one after the other, in the order in which they
/// were started, and so do settlings. All run in a context of the runtime's own, where launches
/// wait for no thread of the program, whatever is stopped. I6: whenever neither a copy nor a
/// settling of the bay runs, the digest of a tile is that of the bytes in the target.
///
/// One thread at a time, which holds `turn`.
class LiveCopier {
 public:
  /// For the chunks of the gates that are on their way, and for those that are copied meanwhile.
  static constexpr std::size_t bays = 128;

  /// In `context`, on the GPU `device`, which no stop stops. Throws: what the driver throws.
  /// Blocks: loads kernels, which waits for the work of the context. Requires: the caller holds the
  /// turn for slow calls.
  LiveCopier(Memory& memory, DeviceId device, ContextHandle context, const LiveTuning& tuning);
  /// Size of the digests and counters, which are kept on the GPU.
  static std::uint64_t table_bytes(std::uint64_t granule_bytes, const LiveTuning& tuning);
  ~LiveCopier();
  LiveCopier(const LiveCopier&) = delete;
  LiveCopier& operator=(const LiveCopier&) = delete;

  Mutex turn;

  /// A bay for a chunk of that size; none if all are taken, or if their digests use up the table,
  /// which has room for two chunks of any size and for more small ones. Throws: Error{busy} while
  /// work that was given up runs in a bay that nobody has: what is started now would wait behind
  /// it.
  std::optional<std::size_t> take_bay(std::uint64_t size_bytes);
  bool has_bay_for(std::uint64_t size_bytes) const;
  /// Work of the bay may still run.
  void leave_bay(std::size_t bay) noexcept { bays_[bay].taken = false; }

  /// `share_percent` of the blocks of `LiveTuning` copy, at least one. Throws: then nothing runs,
  /// or both chunks are `busy()`. Requires: the caller holds the turn for slow calls.
  void start_copy(std::size_t bay, const Chunk& source, const Chunk& target, int share_percent);
  /// Copies again what was written since. Throws: it may run all the same, as `busy` tells.
  /// Requires: the copy has ended, and nothing writes to the source.
  void settle(std::size_t bay, bool paranoid);
  /// Whether the last work of the bay has ended, after waiting until `deadline`. Throws: what it
  /// failed with.
  bool ended_by(std::size_t bay, TimePoint deadline);
  /// The same now, without a driver call. False also if it failed.
  bool ended(std::size_t bay) const noexcept;
  /// Number of tiles copied by the settling that has ended.
  std::uint64_t dirty_tiles(std::size_t bay) const noexcept;
  std::uint64_t tile_bytes() const noexcept { return tile_bytes_; }
  /// Whether work of the bay may be in progress.
  bool busy(std::size_t bay) const noexcept { return bays_[bay].busy; }

 private:
  struct Bay {
    bool made = false;
    bool taken = false;
    std::uint64_t* done = nullptr;  // Words of pinned memory that the device writes.
    std::uint64_t* dirty = nullptr;
    Address counters{};
    Address digests{};
    std::uint64_t digests_bytes = 0;
    Address source{}, target{};
    Tiling tiling;
    DigestKey key;
    std::uint64_t epoch = 0;  // Of the last work, which runs in `stream`.
    BoundStream stream;
    bool busy = false;
  };

  void make();
  void make_table(std::uint64_t size_bytes);
  void claim_table(std::uint64_t size_bytes);
  void make_bay(Bay& bay, std::size_t index);
  bool ends_unmarked() noexcept;
  bool under_way(std::size_t bay);
  std::optional<Address> room_for_digests(std::uint64_t digests_bytes) const;
  void release() noexcept;
  void release_memory(bool ended) noexcept;
  void require_idle(Bay& bay) const;

  Memory& memory_;
  Driver& driver_;
  const DeviceId device_;
  const ContextHandle context_;
  const LiveTuning tuning_;
  const std::uint64_t tile_bytes_;
  std::unique_ptr<PinnedWords> words_;
  Chunk table_;  // Digests and counters of all bays.
  BoundStream copy_stream_;
  BoundStream settle_stream_;
  KernelHandle copy_kernel_{}, settle_kernel_{}, paranoid_kernel_{};
  std::array<Bay, bays> bays_;
};

}  // namespace vma
