#pragma once

#include "migrate/copying/copy_engine.hpp"
#include "migrate/moves/migrator.hpp"
#include "sim/sim_clock.hpp"
#include "unit/memory/memory_rig.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// A MemoryRig with everything that moves memory.
class MoveRig : public MemoryRig {
 public:
  static constexpr std::chrono::milliseconds hold_limit{2000};

  explicit MoveRig(const std::string& machine = "test-2", const MemoryLimits& limits = {},
                   const SimOptions& options = {}, bool suspends = false);
  ~MoveRig();

  CopyEngine& engine() { return *engine_; }
  Migrator& migrator() { return *migrator_; }

  /// An allocation whose word i is `seed` + i.
  std::shared_ptr<Allocation> filled(std::uint64_t pages, Place at, std::uint64_t chunk_pages,
                                     std::uint64_t seed);
  void fill(const Chunk& chunk, std::uint64_t seed);
  void fill(Allocation& allocation, std::uint64_t seed);
  /// The number of words that differ from what `fill` wrote.
  std::uint64_t wrong(const Chunk& chunk, std::uint64_t seed);
  std::uint64_t wrong(const Allocation& allocation, std::uint64_t seed);
  /// The same, as a kernel of the GPU sees it through the pointer.
  std::uint64_t wrong_for(int gpu, const Allocation& allocation, std::uint64_t seed);

  MigrationReport move(Allocation& allocation, Place to, const MigrateOptions& options = {});
  MigrationReport move(Allocation& allocation, SlotRange range, Place to,
                       const MigrateOptions& options = {});
  /// The results of `Migrator::move_all`, with the report of the whole as that of one more range.
  std::vector<RangeResult> move_all(const std::vector<RequestedRange>& ranges,
                                    const MigrateOptions& options = {},
                                    const MigrationTerms& terms = {});

 private:
  std::unique_ptr<CopyEngine> engine_;
  std::unique_ptr<Migrator> migrator_;
};

/// All of the allocation, to move there.
RequestedRange whole(const std::shared_ptr<Allocation>& allocation, Place to);

/// A thread that destroys a context behind the next hold, which waits for held work: no grant of
/// other threads returns meanwhile. From now on a call takes long, so that it comes in time. On a
/// machine with two GPUs.
std::unique_ptr<Task> spawn_destroyer(MoveRig& rig, SteppedThreads& executor, Call interferes,
                                      std::chrono::milliseconds takes);

/// An attached stream of a context that is neither primary nor current.
struct OwnContextStream {
  explicit OwnContextStream(MoveRig& owner);
  ~OwnContextStream();
  OwnContextStream(const OwnContextStream&) = delete;
  OwnContextStream& operator=(const OwnContextStream&) = delete;

  MoveRig& rig;
  const ContextHandle context;
  const BoundStream stream;
};

}  // namespace vma
