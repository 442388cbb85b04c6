#pragma once

#include "lab/replay/replay_memory.hpp"
#include "lab/replay/replay_options.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "telemetry/claim_limit.hpp"
#include "telemetry/known_starts.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace vma {

/// Uses as `vmart run` reports them: of a launch it knows the pointers, when it is enqueued. Each
/// reaches to the next one that any launch had into the same object, with the runtime's own code
/// (`AllocationStarts`). So a use has no passes, reads are not told from writes, and a kernel that
/// uses a part seems to use all that begins at its pointer. `ClaimLimit` cuts what no GPU can have
/// accessed. Not thread-safe.
class LaunchUses {
 public:
  /// Requires: the references outlive it.
  LaunchUses(const ReplayOptions& options, ReplayScheduler& scheduler, const ReplayMemory& memory)
      : options_(options), scheduler_(scheduler), memory_(memory), limit_(scheduler.costs()) {}

  bool are_told() const noexcept { return options_.told_uses != ToldUses::exact; }
  /// The device launches `launches` kernels with a pointer to `offset` of the object.
  void launch(ReplayMemory::Index object, std::uint64_t offset, PlaceId device, double launches);
  /// The object is freed: its number and its index may be another one's from now on.
  void forget(std::uint64_t number) noexcept;
  bool has_any() const noexcept { return !launches_.empty(); }
  /// Queues all of them as uses of the scheduler.
  void tell(Time now);

 private:
  struct Launch {
    ReplayMemory::Index object = 0;
    std::uint64_t number = 0;  // The object's.
    std::uint64_t offset = 0;
    PlaceId device{};
    double launches = 1;
  };
  struct Use {
    ChunkId chunk{};
    PlaceId device{};
    double bytes = 0;
  };

  bool is_unseen(std::uint64_t number) const noexcept;
  void split(const Launch& launch);

  const ReplayOptions& options_;
  ReplayScheduler& scheduler_;
  const ReplayMemory& memory_;
  ClaimLimit limit_;
  std::unordered_map<std::uint64_t, AllocationStarts> starts_;  // By number of the object.
  std::vector<Launch> launches_;
  std::vector<Use> uses_;  // Buffers of one call.
  std::vector<UseClaim> claims_;
};

}  // namespace vma
