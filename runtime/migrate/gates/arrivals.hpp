#pragma once

#include "base/clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// Which streams have written an epoch into their words, and when that was seen. A word that is
/// written over afterwards has been seen all the same; one that has another epoch has not arrived.
class Arrivals {
 public:
  Arrivals(Clock& clock, std::uint64_t epoch, std::size_t count);

  std::uint64_t epoch() const noexcept { return epoch_; }
  /// Its write is about to be enqueued: from here on the word is looked at.
  void expect(std::size_t index, std::uint64_t* word) noexcept;
  /// Nothing of it runs, nor will: it counts as arrived.
  void excuse(std::size_t index) noexcept;
  /// Looks at the words of those that have not arrived. Calls nothing that blocks.
  void look() noexcept;

  bool any() const noexcept { return first_.has_value(); }
  bool all() const noexcept { return missing_ == 0; }
  bool has(std::size_t index) const noexcept { return streams_[index].arrived; }
  /// From the expecting to the arrival; nothing of one that was excused or has not arrived.
  std::optional<std::chrono::nanoseconds> depth(std::size_t index) const noexcept;
  /// Of those that were not excused; now, if there are none.
  TimePoint first() const noexcept;
  TimePoint last() const noexcept;

 private:
  struct Stream {
    std::uint64_t* word = nullptr;
    TimePoint expected_at{0};
    TimePoint seen_at{0};
    bool arrived = false;
    bool excused = false;
  };
  Clock& clock_;
  const std::uint64_t epoch_;
  std::vector<Stream> streams_;
  std::size_t missing_;
  std::optional<TimePoint> first_;
  TimePoint last_{0};
};

}  // namespace vma
