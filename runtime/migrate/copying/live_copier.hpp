#pragma once

#include "memory/memory.hpp"
#include "migrate/copying/digest.hpp"
#include "migrate/stops/stop_words.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vma {

/// How the kernels of live copies are sized. docs/results/live_moves.md lists what each choice
/// costs the application and the move.
struct LiveTuning {
  std::uint64_t tiles_per_granule = 8;  ///< 256 KiB if a granule is 2 MiB.
  unsigned copy_blocks = 32;            ///< With the whole copy share: more are no faster.
  /// Of what settles, and of what digests without copying: many, since it should not take long.
  unsigned settle_blocks_per_multiprocessor = 4;
};

/// Copies chunks off one GPU while the application uses them, and settles what has changed since.
///
///     take_bay -> start_copy -> copied_by -> arm -> go -> settled_by -> leave_bay
///
/// Each bay holds one chunk in progress. Copies run one after the other, in the order in which they
/// were started. All chunks that settle together do so in one launch: while one of ours waits in
/// the application's context, a thread of the program may free memory there, wait for it, and block
/// the next one. Everything slow is prepared beforehand: under a closed gate `go` is one store, and
/// the rest only polls words. I6: whenever neither a copy nor a settling of the bay runs, the
/// digest of a tile is that of the bytes in the target.
///
/// One thread at a time, which holds `turn`; what copies by engines use of the copier at the target
/// is constant, and used under the turn for slow calls.
/// One owner: the streams, kernels and bays of one GPU, whose work runs in one order.
class LiveCopier {
 public:
  /// For the chunks of the gates that are on their way, and for those that are copied meanwhile.
  static constexpr std::size_t bays = 128;

  /// In `context`, on the GPU `device`. Throws: what the driver throws. Blocks: loads kernels,
  /// which waits for the work of the context. Requires: the caller holds the turn for slow calls.
  LiveCopier(Memory& memory, DeviceId device, ContextHandle context, const LiveTuning& tuning);
  /// Size of the digests and counters, which are kept on the GPU.
  static std::uint64_t table_bytes(std::uint64_t granule_bytes, const LiveTuning& tuning);
  /// Requires: what other copiers do for this one has ended, or `distrust` was called.
  ~LiveCopier();
  LiveCopier(const LiveCopier&) = delete;
  LiveCopier& operator=(const LiveCopier&) = delete;

  Mutex turn;

  /// Leaves no stopped work behind.
  void let_all_go() noexcept;
  /// Waits for all that it does, for others too. False: some of it may still run.
  bool await_end() noexcept;
  /// Work of another copier may still touch what this one owns.
  void distrust() noexcept { ended_ = false; }

  /// A bay for a chunk of that size; none if all are taken, or if their digests use up the table,
  /// which has room for two chunks of any size and for more small ones. Throws: Error{busy} while
  /// work that was given up runs in a bay that nobody has: what is started now would wait behind
  /// it.
  std::optional<std::size_t> take_bay(std::uint64_t size_bytes);
  bool has_bay_for(std::uint64_t size_bytes) const;
  /// Work of the bay may still run.
  void leave_bay(std::size_t bay) noexcept { bays_[bay].taken = bays_[bay].lost; }

  /// `share_percent` of the blocks of `LiveTuning` copy, at least one. Throws: then nothing runs,
  /// or both chunks are `busy()`. Requires: the caller holds the turn for slow calls.
  void start_copy(std::size_t bay, const Chunk& source, const Chunk& target, int share_percent);
  /// The same by a copy engine, which takes nothing from the program's kernels; `there`, the copier
  /// of the target's GPU, digests what has arrived, with that share of its blocks. A driver lets
  /// mappings and unmaps wait for such a copy: see `await_engine`. `there` may be at work for
  /// another thread. Requires: as `start_copy`; both are in contexts of the runtime's own, and the
  /// target's GPU reaches the source's.
  void start_copy_by_engine(std::size_t bay, const Chunk& source, const Chunk& target,
                            int share_percent, LiveCopier& there);
  /// Waits for the copies by engines that were started, at most until `deadline`. Any thread, which
  /// holds the turn for slow calls, so that none is started meanwhile.
  void await_engine(TimePoint deadline) noexcept;
  /// Whether the copy has ended, after waiting until `deadline`. Throws: what it failed with.
  bool copied_by(std::size_t bay, TimePoint deadline);

  /// One launch of settling work.
  struct Settling {
    std::uint64_t epoch = 0;
  };
  /// Enqueues the settling of these bays, which waits for `go` and for the settlings that were
  /// armed before. Throws: then nothing runs. Requires: copied; no settling of the bays that was
  /// armed before has yet to be let go.
  Settling arm(std::span<const std::size_t> bays, bool paranoid);
  /// Whether it has been let go, perhaps by the end of the process.
  bool gone(Settling settling) const noexcept { return go_->is_open(settling.epoch); }
  /// Lets it go, together with all that were armed before. Also from other threads, to release
  /// stopped work in place of the migrator.
  void go(Settling settling) noexcept { go_->open(settling.epoch); }
  /// As `copied_by`, for the settling.
  bool settled_by(std::size_t bay, TimePoint deadline);
  bool settled(std::size_t bay) const noexcept;
  /// Number of tiles copied by the settling that has ended.
  std::uint64_t dirty_tiles(std::size_t bay) const noexcept;
  std::uint64_t tile_bytes() const noexcept { return tile_bytes_; }
  /// Whether work of the bay may be in progress.
  bool busy(std::size_t bay) const noexcept { return bays_[bay].busy; }

 private:
  struct Bay {
    bool made = false;
    bool taken = false;
    bool lost = false;                // A digest of its chunk may come at any time: it stays taken.
    std::uint64_t* copied = nullptr;  // Words of pinned memory that the device writes.
    std::uint64_t* settled = nullptr;
    std::uint64_t* dirty = nullptr;
    Address counters{};
    Address digests{};
    std::uint64_t digests_bytes = 0;
    Address source{}, target{};
    Tiling tiling;
    DigestKey key;
    std::uint64_t epoch = 0;
    bool busy = false;
    /// The stream of another copier that writes `copied`; none if that is `copy_stream_`.
    BoundStream digested_on;
  };

  void make();
  void make_table(std::uint64_t size_bytes);
  void claim_table(std::uint64_t size_bytes);
  void make_bay(Bay& bay, std::size_t index);
  void take_up(Bay& bay, const Chunk& source, const Chunk& target);
  bool ends_unmarked(BoundStream stream) noexcept;
  bool under_way(std::size_t bay);
  std::optional<Address> room_for_digests(std::uint64_t digests_bytes) const;
  void release() noexcept;
  void release_memory(bool ended) noexcept;
  std::vector<ChainStep> settle_steps(std::span<const std::size_t> bays, bool paranoid,
                                      std::uint64_t epoch) const;
  /// A chain of these steps, none of whose launches waits to be let go.
  struct Chain {
    ExecGraphHandle handle{};
    Settling last;  // The latest launch.
  };
  Chain& chain_of(std::span<const ChainStep> steps, bool paranoid);
  void require_idle(Bay& bay) const;
  bool await(const std::uint64_t* word, Bay& bay, std::initializer_list<BoundStream> streams,
             TimePoint deadline);

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
  BoundStream digest_stream_;  // For other copiers, whose copies its work waits for.
  EventHandle engine_done_{};
  KernelHandle copy_kernel_{}, digest_kernel_{}, settle_kernel_{}, paranoid_kernel_{};
  bool ended_ = true;  // So far as it has been waited for.
  bool awaited_ = false;
  std::unique_ptr<StopWord> go_;
  Settling last_settling_;
  /// By the number of steps, and whether paranoid; made when first needed.
  std::multimap<std::pair<std::size_t, bool>, Chain> chains_;
  std::array<Bay, bays> bays_;
  Bay padding_;  // Without tiles: for settling steps that do nothing.
};

}  // namespace vma
