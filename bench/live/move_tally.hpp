#pragma once

#include "bench/harness/samples.hpp"

#include <vma/migration.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vma {

/// Results of many moves. Moves of one chunk, or with one stop, contribute one value each of stall
/// and skew.
class MoveTally {
 public:
  void add(const MigrationReport& report);
  /// Counts a move that ended in `busy`; the report tells what was tried.
  void add_busy(const MigrationReport& report);

  int moves() const noexcept { return static_cast<int>(wall_.size()); }
  int tried() const noexcept { return moves() + busy_; }
  std::uint64_t bytes_moved() const noexcept { return bytes_moved_; }
  std::chrono::nanoseconds wall() const noexcept { return wall_sum_; }
  /// Bytes of all moves divided by the time of all moves; 0 if there are none.
  double rate_gb_s() const;
  /// Summed over all moves.
  const Phases& phases() const noexcept { return phases_; }

  /// The sample's wall time is the median. Each name gets the prefix `prefix`. Throws:
  /// std::runtime_error if no move succeeded and none was refused as busy.
  void add_to(Sample& sample, const std::string& prefix = "") const;

 private:
  void count(const MigrationReport& report);

  std::vector<std::chrono::nanoseconds> wall_, stall_, skew_;
  std::chrono::nanoseconds wall_sum_{0};
  Phases phases_;
  std::map<std::string, int> reasons_;
  std::uint64_t bytes_moved_ = 0;
  std::uint64_t bytes_twice_ = 0;
  int chunks_moved_ = 0;
  int chunks_live_ = 0;
  int retries_ = 0;
  int busy_ = 0;
};

}  // namespace vma
