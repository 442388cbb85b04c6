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

/// Sums up uses by chunk and GPU. One thread at a time.
///
/// A range is cut at the borders of chunks and at its allocation's end. Nothing that a program
/// reports can do harm: invalid uses are counted.
class UseSummary {
 public:
  /// What one GPU did with one slot. An id names the allocation that had it at the time of `add`;
  /// `begin` tells whether it still does.
  struct Row {
    AllocationId allocation{};
    std::uint32_t slot = 0;
    DeviceId device{};
    double bytes_read = 0, bytes_written = 0;  ///< With passes and weights.
    TimePoint earliest{0};                     ///< Zero if none of the uses has a time.
    Address begin{};                           ///< Of the allocation.
  };

  /// Uses without a chunk, since the start, with weights.
  struct Ignored {
    std::uint64_t unknown_uses = 0;  ///< Of memory that is not in the registry.
    double unknown_bytes = 0;        ///< Theirs, and those past an allocation's end.
    std::uint64_t bad_uses = 0;      ///< Unknown GPU, no bytes, overflow, or not a number.
  };

  /// Both arguments outlive it.
  UseSummary(const Registry& registry, const Topology& topology);

  /// Takes the registry's lock once for each allocation in `uses`. Throws: std::bad_alloc; then
  /// some have been added.
  void add(std::span<const LoggedUse> uses);
  /// Each pair of slot and GPU once, in the order of first use.
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
