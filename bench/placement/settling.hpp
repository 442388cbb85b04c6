#pragma once

#include "bench/placement/readers.hpp"
#include "bench/samples.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>

namespace vma {

/// Watches whether the scheduler still moves memory. One thread's.
class Settling {
 public:
  /// Requires: `runtime` outlives this.
  explicit Settling(Runtime& runtime);

  /// Looks. True once no move was begun, ended or under way for a second (less where
  /// `case_seconds` is short).
  bool look();
  /// Blocks: looks while `readers` read, from `least` after the construction on until it has
  /// settled, but not past `most`. Throws: what a reader failed with.
  bool await(Readers& readers, std::chrono::duration<double> least,
             std::chrono::duration<double> most);
  /// From the construction to the last look at which something moved.
  double settled_ms() const { return to_us(moved_) / 1e3; }

 private:
  Runtime& runtime_;
  const std::chrono::nanoseconds quiet_;
  const Stopwatch watch_;
  std::uint64_t started_ = 0, ended_ = 0;  // At the last look.
  std::chrono::nanoseconds moved_{0};      // When the last sign of a move was seen.
};

}  // namespace vma
