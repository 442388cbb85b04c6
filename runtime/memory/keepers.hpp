#pragma once

#include "machine/topology.hpp"
#include "memory/chunk.hpp"
#include "memory/ledger.hpp"

#include <span>
#include <vector>

namespace vma {

/// One small chunk on each GPU, granted to all and mapped for the life of the runtime: while it
/// stands, a grant between these GPUs costs a tenth of what it costs otherwise. Beside each keeper,
/// a spare chunk that is given up when the driver finds no room for page tables.
///
/// Opened before any user memory, closed after all. `give_up_spares` may come from any thread.
class Keepers {
 public:
  /// Throws: Error{out_of_memory} if a GPU has no room for a granule.
  Keepers(Driver& driver, const Topology& topology, Ledger& ledger);
  /// Returns as soon as the driver lets a grant return at all. A thread in cuCtxDestroy behind
  /// stopped work lets no grant and no unmap of others return (driver 580): who must not stand in
  /// the call that counts asks here first. One thread at a time. Throws: what the driver throws.
  void probe_grant();
  /// The same of all GPUs that reach the first one, which takes longer. Where the last grant was
  /// milliseconds ago the driver is slow at the next one, and at an unmap and a map too:
  /// docs/results/measurements.md has by how much. Requires: nothing is stopped.
  void warm_grant();
  /// Releases the spares, so that the driver can use their memory. True if there were any.
  bool give_up_spares() noexcept;

 private:
  void regrant(std::span<Accessor> rights);

  Driver& driver_;
  Ledger& ledger_;
  std::vector<Chunk> keepers_;    // Constant after construction.
  std::vector<Accessor> rights_;  // To the first, as they are.
  Mutex mutex_;
  std::vector<Chunk> spares_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
