#pragma once

#include "bench/placement/readers.hpp"
#include "bench/harness/samples.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>

namespace vma {

/// Observes whether the scheduler still moves memory. One thread.
class Settling {
 public:
  /// Requires: `runtime` outlives this object.
  explicit Settling(Runtime& runtime);

  /// Looks once. Returns true if no move has begun, ended or been in progress for a second (less if
  /// `case_seconds` is short).
  bool look();
  /// Blocks: looks while `readers` read until memory has settled, but at least until `least` and at
  /// most until `most` after construction. Throws: the error of a reader, if one failed.
  bool await(Readers& readers, std::chrono::duration<double> least,
             std::chrono::duration<double> most);
  /// Time from construction to the last look that saw a move.
  double settled_ms() const { return to_us(moved_) / 1e3; }

 private:
  Runtime& runtime_;
  const std::chrono::nanoseconds quiet_;
  const Stopwatch watch_;
  std::uint64_t started_ = 0, ended_ = 0;  // At the last look.
  std::chrono::nanoseconds moved_{0};      // When the last sign of a move was seen.
};

}  // namespace vma
