#pragma once

#include "bench/live/writers.hpp"
#include "bench/harness/samples.hpp"

#include <vma/migration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vma {

/// The progress of some writers over time: samples with their times, called looks.
class RateLog {
 public:
  /// `period` is the time between the looks of `watch`.
  explicit RateLog(const Writers& writers,
                   std::chrono::nanoseconds period = std::chrono::milliseconds(5));

  void look();
  /// Blocks: looks once per period for this long, and at both ends.
  void watch(std::chrono::nanoseconds length);
  /// Like the above, until the migration has ended.
  void watch(const Migration& migration);

  /// Number of the last look.
  std::size_t last() const noexcept { return looks_.size() - 1; }
  double at_ms(std::size_t look) const;
  /// Launches per second that ended between two looks; 0 if no time passed.
  double per_second(std::size_t from, std::size_t to) const;
  /// Adds two series: the ends of all periods, and launches per millisecond in each.
  void add_to(Sample& sample) const;

 private:
  struct Look {
    std::chrono::nanoseconds time;
    std::uint64_t completed;
  };

  const Writers& writers_;
  const std::chrono::nanoseconds period_;
  Stopwatch watch_;
  std::vector<Look> looks_;
};

/// The progress of two groups of writers over the same stretches of time.
class TwoLogs {
 public:
  /// Launches per second.
  struct Stretch {
    double one = 0;
    double other = 0;
  };

  TwoLogs(const Writers& one, const Writers& other) : one_(one), other_(other) {}

  /// `body` gets the first log and runs for the length of the stretch.
  template <typename Body>
  Stretch over(Body body) {
    one_.look();
    other_.look();
    const std::size_t one = one_.last(), other = other_.last();
    body(one_);
    one_.look();
    other_.look();
    return {one_.per_second(one, one_.last()), other_.per_second(other, other_.last())};
  }

 private:
  RateLog one_, other_;
};

}  // namespace vma
