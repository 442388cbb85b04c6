#pragma once

#include "memory/memory.hpp"
#include "migrate/copying/digest.hpp"
#include "migrate/gates/stop_word.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace vma {

/// How the kernels of live copies are sized. docs/results/measurements.md lists what each choice
/// costs the application and the move.
struct LiveTuning {
  std::uint64_t tiles_per_granule = 8;  ///< 256 KiB if a granule is 2 MiB.
  unsigned copy_blocks = 16;            ///< Few: the application needs the multiprocessors.
  unsigned settle_blocks_per_multiprocessor = 4;  ///< Many: the application is stopped.
};

/// Copies chunks off one GPU while the application uses them, and settles what has changed since.
///
///     start_copy -> copied_by -> arm -> go -> settled_by
///
/// Two chunks can be in progress, one in each bay: the next one is copied while this one settles.
/// Everything slow is prepared beforehand: under a closed gate `go` is one store, and the rest only
/// polls words. I6: whenever neither a copy nor a settling of the bay runs, the digest of a tile is
/// that of the bytes in the target.
///
/// One thread at a time, which holds `turn`.
class LiveCopier {
 public:
  static constexpr std::size_t bays = 2;

  /// In `context`, on the GPU `device`. Throws: what the driver throws. Blocks: loads kernels,
  /// which waits for the work of the context. Requires: the caller holds the turn for slow calls.
  LiveCopier(Memory& memory, DeviceId device, ContextHandle context, const LiveTuning& tuning);
  /// Size of the digests and counters, which are kept on the GPU.
  static std::uint64_t table_bytes(std::uint64_t granule_bytes, const LiveTuning& tuning);
  ~LiveCopier();
  LiveCopier(const LiveCopier&) = delete;
  LiveCopier& operator=(const LiveCopier&) = delete;

  Mutex turn;

  /// Throws: then nothing runs.
  void start_copy(std::size_t bay, const Chunk& source, const Chunk& target);
  /// Whether the copy has ended, after waiting until `deadline`. Throws: what it failed with.
  bool copied_by(std::size_t bay, TimePoint deadline);
  /// Enqueues the settling, which waits for `go`. Requires: copied.
  void arm(std::size_t bay, bool paranoid);
  /// The word that armed settling waits for, for code that releases stopped work in place of the
  /// mover.
  StopWord& go_word(std::size_t bay) noexcept { return *bays_[bay].go; }
  std::uint64_t epoch(std::size_t bay) const noexcept { return bays_[bay].epoch; }
  void go(std::size_t bay) noexcept;
  bool settled_by(std::size_t bay, TimePoint deadline);
  /// Number of tiles copied by the settling that has ended.
  std::uint64_t dirty_tiles(std::size_t bay) const noexcept;
  std::uint64_t tile_bytes() const noexcept { return tile_bytes_; }
  /// Whether the bay's copy or settling has not ended yet, even if given up. All bays share their
  /// streams, so it delays the work of other bays. Throws: what it failed with.
  bool under_way(std::size_t bay);
  /// Whether work of the bay may be in progress.
  bool busy(std::size_t bay) const noexcept { return bays_[bay].busy; }

 private:
  struct Bay {
    std::unique_ptr<StopWord> go;
    std::uint64_t* copied = nullptr;  // Words of pinned memory that the device writes.
    std::uint64_t* settled = nullptr;
    std::uint64_t* dirty = nullptr;
    Address digests{};
    Address counters{};
    ExecGraphHandle copying{};
    ExecGraphHandle settling{};
    ExecGraphHandle settling_paranoid{};
    Address source{}, target{};
    Tiling tiling;
    DigestKey key;
    std::uint64_t epoch = 0;
    bool busy = false;
  };

  void make();
  void make_table(std::uint64_t size_bytes);
  void claim_table(std::uint64_t size_bytes);
  void make_bay(Bay& bay, Address table, std::uint64_t digest_bytes_max);
  void release() noexcept;
  void release_memory(bool ended) noexcept;
  std::array<ChainStep, 2> copy_steps(const Bay& bay) const;
  std::array<ChainStep, 3> settle_steps(const Bay& bay, bool paranoid) const;
  void require_idle(Bay& bay) const;
  bool await(const std::uint64_t* word, Bay& bay, BoundStream stream, TimePoint deadline);

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
