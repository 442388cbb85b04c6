#pragma once

#include "base/clock.hpp"
#include "machine/topology.hpp"
#include "memory/registry.hpp"
#include "telemetry/use_log.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma {

/// Aggregates uses by chunk and GPU. One thread at a time.
///
/// Ranges are split at chunk borders and cut at the end of the allocation. Reports by programs
/// cannot do harm: invalid uses are only counted.
class UseSummary {
 public:
  /// The use of one slot by one GPU. The id names the allocation that had it at the time of `add`;
  /// `begin` tells whether it still does.
  struct Row {
    AllocationId allocation{};
    std::uint32_t slot = 0;
    DeviceId device{};
    /// Multiplied by passes and weights.
    double bytes_read = 0, bytes_written = 0;
    double guessed_read = 0, guessed_written = 0;  ///< The same of guessed uses, not in those.
    TimePoint earliest{0};                         ///< Zero if no use has a time.
    Address begin{};                               ///< Of the allocation.
  };

  /// Uses outside of all chunks since the start, weighted.
  struct Ignored {
    std::uint64_t unknown_uses = 0;  ///< Of memory that is not in the registry.
    double unknown_bytes = 0;        ///< Bytes of these uses, and those beyond an allocation's end.
    std::uint64_t bad_uses = 0;      ///< Unknown GPU, overflow, or not a number.
  };

  /// Requires: both arguments outlive it.
  UseSummary(const Registry& registry, const Topology& topology);

  /// Requires: `KnownStarts` has completed them. Throws: std::bad_alloc; some uses may have been
  /// added by then.
  void add(std::span<const LoggedUse> uses);
  /// One row per pair of slot and GPU, in the order of first use.
  std::span<const Row> rows() const noexcept { return rows_; }
  void clear() noexcept;
  /// Whether `add` does more than to count it as bad.
  bool makes_sense(const LoggedUse& use) const;
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
  const Registry::Bounds* bounds_of(AllocationId id, Address address);
  Row& row_of(const Key& key);

  const Registry& registry_;
  std::vector<bool> has_device_;                               // By ordinal.
  std::unordered_map<AllocationId, Registry::Bounds> bounds_;  // Valid during one `add`.
  std::unordered_map<Key, std::size_t, KeyHash> numbers_;
  std::vector<Row> rows_;
  Ignored ignored_;
};

}  // namespace vma
