#pragma once

#include "machine/topology.hpp"
#include "memory/chunk.hpp"
#include "memory/ledger.hpp"

#include <span>
#include <vector>

namespace vma {

/// One small chunk on each GPU, granted to all and mapped for the life of the runtime: it makes a
/// grant between these GPUs ten times cheaper. Beside each keeper there is a spare chunk, which is
/// released when the driver finds no room for page tables.
///
/// Opened before any user memory, closed after all of it. Any thread may call `give_up_spares`.
class Keepers {
 public:
  /// Throws: Error{out_of_memory} if a GPU has no room for a granule.
  Keepers(Driver& driver, const Topology& topology, Ledger& ledger);
  /// Returns as soon as the driver lets any grant return. While a thread in cuCtxDestroy waits for
  /// stopped work, the driver blocks all grants and unmaps of other threads (driver 580): a caller
  /// that must not block in its real call probes here first. One thread at a time. Throws: what the
  /// driver throws.
  void probe_grant();
  /// Grants for all GPUs that reach the first one, which takes longer. If the last grant was
  /// milliseconds ago, the next grant, unmap and map are slow: docs/results/live_moves.md says by
  /// how much. Requires: nothing is stopped.
  void warm_grant();
  /// Releases the spares, so that the driver can use their memory. False if there were none.
  bool give_up_spares() noexcept;

 private:
  void regrant(std::span<Accessor> rights);

  Driver& driver_;
  Ledger& ledger_;
  std::vector<Chunk> keepers_;    // Constant after construction.
  std::vector<Accessor> rights_;  // Current rights to the first keeper.
  Mutex mutex_;
  std::vector<Chunk> spares_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
