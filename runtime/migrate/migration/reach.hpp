#pragma once

#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "migrate/gates/attached_streams.hpp"
#include "migrate/migration/migration_task.hpp"

#include <span>
#include <vector>

namespace vma {

/// Where the runtime may put memory by its own choice: only where every GPU that uses the memory
/// can reach it. All code that chooses a place asks here, and the mover asks again under the move
/// claim. What a program itself moves goes where the program says.
///
/// The GPUs that use a chunk are
/// - those that `alloc` was given as readers;
/// - otherwise, if the program has put the chunk on a GPU, all that can reach that GPU;
/// - otherwise, since every GPU reaches a host node, those with an attached stream that may use the
/// allocation, or all GPUs if there is no such stream.
/// Immutable except for the attached streams. Any thread.
class Reach {
 public:
  /// Both arguments outlive it.
  Reach(const Topology& topology, const AttachedStreams& attached);

  /// False if every GPU reaches every place, so that no check is needed.
  bool limited() const noexcept { return limited_; }
  std::vector<DeviceId> users(const Allocation& allocation, std::size_t slot) const;
  /// The GPUs that can reach `gpu`: the users of memory that a program wants there.
  std::vector<DeviceId> users(Location gpu) const;
  bool all_reach(std::span<const DeviceId> users, Location at) const;
  bool allows(const Allocation& allocation, std::size_t slot, Location to) const;
  /// Throws: Error{unreachable} that names `call` and a GPU, if a slot of the range that is
  /// elsewhere may not go to `to`.
  void require(const Allocation& allocation, SlotRange range, Location to, const char* call) const;

 private:
  const Topology& topology_;
  const AttachedStreams& attached_;
  bool limited_ = false;
};

}  // namespace vma
