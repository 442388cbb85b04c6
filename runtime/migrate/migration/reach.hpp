#pragma once

#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "migrate/gates/attached_streams.hpp"
#include "migrate/migration/requests.hpp"

#include <span>
#include <vector>

namespace vma {

/// Where the runtime may put memory by its own choice: only where every GPU that uses the memory
/// can reach it, and where their atomics work if the program needs them
/// (`AllocOptions::shared_atomics`). All code that chooses a place asks here, and the migrator asks
/// again under the move claim. What a program itself moves goes where the program says.
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

  /// False if the allocation may be at every place, so that no check is needed.
  bool limits(const Allocation& allocation) const noexcept;
  std::vector<DeviceId> users(const Allocation& allocation, std::size_t slot) const;
  /// The GPUs that can reach `at`: the users of memory that a program wants there.
  std::vector<DeviceId> users(Place at) const;
  /// Whether memory that these GPUs use may be at `at`.
  bool suits(std::span<const DeviceId> users, Place at, bool shared_atomics) const;
  bool allows(const Allocation& allocation, std::size_t slot, Place to) const;
  /// Throws: Error{unreachable} that names `call` and a GPU, if a slot of the range that is
  /// elsewhere may not go to `to`.
  void require(const Allocation& allocation, SlotRange range, Place to, const char* call) const;
  /// Also for what the program itself moves. Throws: Error{unsupported} that names `call`, if
  /// atomics on the slots of the range would not work at `to`.
  void require_atomics(const Allocation& allocation, SlotRange range, Place to,
                       const char* call) const;
  /// The same for a new allocation. No `readers`: all GPUs that reach the place.
  void require_atomics(std::span<const DeviceId> readers, Place at, const char* call) const;

 private:
  const Topology& topology_;
  const AttachedStreams& attached_;
  bool limited_ = false;
  bool limits_atomics_ = false;  // There are places where some atomics do not work.
};

}  // namespace vma
