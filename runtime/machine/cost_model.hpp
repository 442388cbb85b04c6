#pragma once

#include "base/clock.hpp"
#include "machine/machine_description.hpp"

#include <cstdint>

namespace vma {

/// The properties of one access grant that its cost depends on.
struct GrantSituation {
  Place at;
  std::uint64_t size_bytes = 0;
  int gpus = 1;                  ///< Number of GPUs that get access.
  int cold_peers = 0;            ///< How many of them reach no other mapping of the owner yet.
  bool fresh = false;            ///< The chunk's first grant.
  bool shown_elsewhere = false;  ///< Another mapping of the chunk has the same grants.
  bool own_class_warm = false;   ///< These GPUs share another mapping of its size class.
};

/// How long calls take on a machine, computed from its description. Pure and immutable.
class CostModel {
 public:
  explicit CostModel(const MachineDescription& machine) : machine_(machine) {}

  TimePoint create(Place at, std::uint64_t size_bytes) const;
  TimePoint release(Place at, std::uint64_t size_bytes) const;
  TimePoint grant(const GrantSituation& grant) const;
  /// Cost of one mapping that `gpus` GPUs have access to.
  TimePoint unmap(Place at, std::uint64_t size_bytes, int gpus) const;
  /// Cost of replacing the chunk in a slot: unmap, map and the grant beside a keeper.
  TimePoint remap(Place from, Place to, std::uint64_t size_bytes, int gpus) const;

  /// Duration by copy engine, alone on its route. Between two host nodes, a CPU thread copies.
  TimePoint copy(Place from, Place to, std::uint64_t size_bytes) const;
  /// GB/s of the route in one direction; 0 if there is none.
  double bandwidth(Place from, Place to) const;

  const CostParameters& parameters() const noexcept { return machine_.costs; }

 private:
  const MachineDescription machine_;
};

/// The table's value for a size and a number of GPUs.
TimePoint look_up(const CostTable& table, std::uint64_t size_bytes, int gpus);
TimePoint from_microseconds(double us);

}  // namespace vma
