#pragma once

#include "machine/topology.hpp"
#include "memory/chunk.hpp"
#include "memory/ledger.hpp"

#include <span>
#include <vector>

namespace vma {

/// One small chunk on each GPU, granted to all and mapped for the life of the runtime: it makes a
/// grant between these GPUs ten times cheaper. Beside each keeper there is a spare chunk, which is
/// released when the driver finds no room for page tables; and the first one is shown in a slot of
/// our own, too, which nobody uses.
///
/// Opened before any user memory, closed after all of it. Any thread may call `give_up_spares`.
class Keepers {
 public:
  /// Throws: Error{out_of_memory} if a GPU has no room for a granule.
  Keepers(Driver& driver, const Topology& topology, Ledger& ledger);
  ~Keepers();
  Keepers(const Keepers&) = delete;
  Keepers& operator=(const Keepers&) = delete;
  /// Returns as soon as the driver lets any grant return. While a thread in cuCtxDestroy waits for
  /// stopped work, the driver blocks all grants and unmaps of other threads (driver 580): a caller
  /// that must not block in its real call probes here first. One thread at a time. Throws: what the
  /// driver throws.
  void probe_grant();
  /// Switches our own slot: unmaps it, maps it, and grants it to all GPUs that reach the first one.
  /// After a rest the driver takes four times as long for a switch, also after a grant twice as
  /// long (docs/results/live_moves.md). One thread at a time. Requires: nothing is stopped. Blocks:
  /// as a switch. What the driver refuses is only logged.
  void rehearse_switch() noexcept;
  /// Releases the spares, so that the driver can use their memory. False if there were none.
  bool give_up_spares() noexcept;

 private:
  Driver& driver_;
  Ledger& ledger_;
  std::vector<Chunk> keepers_;     // Constant after construction.
  std::vector<Accessor> readers_;  // They reach the first keeper.
  Accessor probed_;                // The current right of its own GPU.
  Reservation slot_;
  bool shown_ = false;  // Whether the slot shows the first keeper.
  Mutex mutex_;
  std::vector<Chunk> spares_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
