#pragma once

#include "base/clock.hpp"
#include "machine/machine_description.hpp"

#include <cstdint>

namespace vma {

/// The circumstances of one access grant that its cost depends on.
struct GrantSituation {
  Location at;
  std::uint64_t size_bytes = 0;
  int gpus = 1;                  ///< Number of GPUs that get access.
  int cold_peers = 0;            ///< Of them, those that reach no other mapping of the owner yet.
  bool fresh = false;            ///< The chunk's first grant.
  bool shown_elsewhere = false;  ///< Another mapping of the chunk has the same grants.
  bool own_class_warm = false;   ///< These GPUs share another mapping of its size class.
};

/// How long calls of a machine take, by its description. Pure and immutable.
class CostModel {
 public:
  explicit CostModel(const MachineDescription& machine) : machine_(machine) {}

  TimePoint create(Location at, std::uint64_t size_bytes) const;
  TimePoint release(Location at, std::uint64_t size_bytes) const;
  TimePoint grant(const GrantSituation& grant) const;
  /// For one mapping that `gpus` have access to.
  TimePoint unmap(Location at, std::uint64_t size_bytes, int gpus) const;
  /// A chunk's switch in a slot: unmap, map and the grant beside a keeper.
  TimePoint remap(Location from, Location to, std::uint64_t size_bytes, int gpus) const;

  /// By copy engine, alone on its route. Between two host nodes, a CPU thread copies.
  TimePoint copy(Location from, Location to, std::uint64_t size_bytes) const;
  /// GB/s of the route, one way; 0 if there is none.
  double bandwidth(Location from, Location to) const;

  const CostParameters& parameters() const noexcept { return machine_.costs; }

 private:
  const MachineDescription machine_;
};

/// The table's value at a size and a count of GPUs.
TimePoint look_up(const CostTable& table, std::uint64_t size_bytes, int gpus);
TimePoint from_microseconds(double us);

}  // namespace vma
