#pragma once

#include "base/clock.hpp"
#include "machine/topology.hpp"
#include "memory/registry.hpp"
#include "telemetry/use_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma {

/// Adds up uses by the chunk that they are of and the GPU that made them. One thread at a time.
///
/// A range is cut at the borders of chunks and at its allocation's end. Nothing that a program can
/// say of a use does harm: what makes no sense is counted.
class UseSummary {
 public:
  /// What one GPU did with one slot. An id names the allocation that had it at the time of `add`;
  /// by `begin` it can be told whether that is still so.
  struct Row {
    AllocationId allocation{};
    std::uint32_t slot = 0;
    DeviceId device{};
    double bytes_read = 0, bytes_written = 0;  ///< With passes and weights.
    TimePoint earliest{0};                     ///< Zero if none of the uses has a time.
    Address begin{};                           ///< Of the allocation.
  };

  /// What found no chunk, since the start, with weights.
  struct Ignored {
    std::uint64_t unknown_uses = 0;  ///< Of memory that is none of the registry's.
    double unknown_bytes = 0;        ///< Theirs, and what reaches past an allocation's end.
    std::uint64_t bad_uses = 0;      ///< No GPU of the topology, no bytes, no sum, no number.
  };

  /// Both live longer.
  UseSummary(const Registry& registry, const Topology& topology);

  /// The registry's lock is taken once for each allocation in `uses`. Throws: std::bad_alloc; then
  /// some have been added.
  void add(std::span<const LoggedUse> uses);
  /// Each pair of slot and GPU once, in the order of their first use.
  std::span<const Row> rows() const noexcept { return rows_; }
  void clear() noexcept;
  const Ignored& ignored() const noexcept { return ignored_; }

 private:
  struct Key {
    AllocationId allocation{};
    std::uint32_t slot = 0;
    DeviceId device{};
    Address begin{};
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };

  void add(const LoggedUse& use);
  bool makes_sense(const LoggedUse& use) const;
  const Registry::Bounds* bounds_of(AllocationId id, Address address);
  Row& row_of(const Key& key);

  const Registry& registry_;
  std::vector<bool> has_device_;                               // By ordinal.
  std::unordered_map<AllocationId, Registry::Bounds> bounds_;  // During one `add`.
  std::unordered_map<Key, std::size_t, KeyHash> numbers_;
  std::vector<Row> rows_;
  Ignored ignored_;
};

}  // namespace vma
