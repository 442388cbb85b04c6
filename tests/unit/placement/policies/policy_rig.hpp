#pragma once

#include "placement/books/chunk_tables.hpp"

#include <vma/policy.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {
inline namespace v1 {

/// Sizes of chunks, and the bytes that one pass over such a chunk reads.
inline constexpr std::uint64_t small_chunk = 64 << 20, large_chunk = 395'000'000;
inline constexpr double small_pass = small_chunk, large_pass = large_chunk;
inline std::vector<std::uint64_t> small_chunks(std::size_t count) {
  return std::vector<std::uint64_t>(count, small_chunk);
}
inline std::vector<std::uint64_t> large_chunks(std::size_t count) {
  return std::vector<std::uint64_t>(count, large_chunk);
}

/// The machine of a policy test: places, their capacities and costs.
struct PolicyMachine {
  MachineCosts costs;
  std::vector<std::uint64_t> capacities;  ///< Of the GPUs first, then of the hosts.
  Time tick = std::chrono::milliseconds(10);

  /// GPUs like H200s on one switch and a host node behind PCIe: reads at 3.8 TB/s from local HBM,
  /// 390 GB/s from a peer, 52 GB/s from the host; copies at 395 and 54 GB/s; a move takes 200 us
  /// more, all of it a stall.
  static PolicyMachine h200(std::size_t gpus, std::uint64_t hbm_bytes, std::uint64_t host_bytes);
  /// Empty, with these capacities.
  std::vector<PlaceState> places() const;
};

/// The place of a GPU's HBM. For the host node, pass the number of GPUs.
constexpr PlaceId gpu_place(std::size_t gpu) {
  return PlaceId{static_cast<std::uint8_t>(gpu)};
}
constexpr ChunkId next(ChunkId chunk, std::size_t by = 1) {
  return ChunkId{static_cast<std::uint32_t>(chunk) + static_cast<std::uint32_t>(by)};
}

/// One policy with its books on a virtual clock, driven by hand. Does what the scheduler does
/// around a policy, and fails the test if a plan is not possible as given: a chunk that may not
/// move or is already there, a place without room at that point of the plan, a missing reason.
class PolicyRig {
 public:
  using Values = std::map<std::string, double>;

  /// Parameters that `values` does not name keep their defaults.
  PolicyRig(const PolicyKind& kind, const PolicyMachine& machine, const Values& values = {});

  /// Allocates chunks at a given place. Returns the first.
  ChunkId allocate(const std::vector<std::uint64_t>& chunk_bytes, PlaceId at,
                   const std::string& tag = "");
  /// Allocates chunks where the policy places them, of `chunk_bytes` each except the last. Fails
  /// the test if they do not fit there.
  ChunkId request(std::uint64_t bytes, std::uint64_t chunk_bytes, PlaceId device,
                  const std::string& tag = "");
  /// Frees the allocation that starts with `first`.
  void free(ChunkId first);

  /// Tells the books, then the policy; returns the policy's plan.
  Plan use(ChunkId chunk, PlaceId device, double bytes_read, double bytes_written = 0);
  /// Times in `hint` are relative to now.
  Plan advise(ChunkId chunk, const Hint& hint);
  Plan press(const Pressure& pressure);
  void advance(Time time);
  /// Advances by one tick, asks the policy, and clears the list of changes.
  Plan tick();
  /// Makes all moves at once, in order, and tells the policy. Returns their number.
  std::size_t apply(const Plan& plan);
  /// For `duration`, in each tick: calls `feed`, ticks, and applies the plan. Returns the number of
  /// moves.
  std::size_t run(Time duration, const std::function<void()>& feed = {});
  /// Calls `use` and applies the plan.
  std::size_t use_and_apply(ChunkId chunk, PlaceId device, double bytes_read,
                            double bytes_written = 0);

  Time now() const { return tables_.now(); }
  PlaceId host_place() const { return PlaceId{static_cast<std::uint8_t>(costs().gpus())}; }
  PlaceId at(ChunkId chunk) const { return snapshot().chunk(chunk).at; }
  std::vector<std::size_t> places_of(ChunkId first, std::size_t chunks) const;
  std::uint64_t free_bytes(PlaceId place) const { return snapshot().place(place).free_bytes(); }
  const MachineCosts& costs() const { return snapshot().costs(); }
  Snapshot snapshot() const { return Snapshot(tables_); }
  ChunkTables& tables() { return tables_; }
  Policy& policy() { return *policy_; }
  /// All applied moves, in order.
  const std::vector<Move>& made() const { return made_; }

 private:
  void check_and_move(const Move& move);

  const Time tick_;
  ChunkTables tables_;
  std::unique_ptr<Policy> policy_;
  std::map<ChunkId, std::size_t> allocations_;  // First chunk to count.
  std::uint32_t last_allocation_ = 0;
  std::vector<Move> made_;
};

/// The values of all parameters of `kind`, some replaced. Fails the test if `kind` has no such
/// parameter or a value is out of bounds.
PolicyValues policy_values(const PolicyKind& kind, const PolicyRig::Values& values = {});

/// "chunk 3 to 1, chunk 4 to 0": for tests to compare.
std::string proposals(const Plan& plan);

}  // namespace v1
}  // namespace vma
