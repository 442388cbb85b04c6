#pragma once

#include "base/clock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma {

/// Which streams have written an epoch into their words, and when that was seen. A word that was
/// seen and is overwritten later still counts; a word with another epoch has not arrived.
class Arrivals {
 public:
  Arrivals(Clock& clock, std::uint64_t epoch, std::size_t count);

  std::uint64_t epoch() const noexcept { return epoch_; }
  /// The stream's write is about to be enqueued: from here on its word is polled.
  void expect(std::size_t index, std::uint64_t* word) noexcept;
  /// The stream runs no work and will not: it counts as arrived.
  void excuse(std::size_t index) noexcept;
  /// Polls the words of those that have not arrived. Makes no blocking calls.
  void look() noexcept;
  /// Whether any has arrived, as `look` would find. From any thread.
  bool any_now() const noexcept;

  bool any() const noexcept { return first_.has_value(); }
  bool all() const noexcept { return missing_ == 0; }
  bool has(std::size_t index) const noexcept { return streams_[index].arrived; }
  /// First and last arrival of those that were not excused; now, if there are none.
  TimePoint first() const noexcept;
  TimePoint last() const noexcept;

 private:
  struct Stream {
    std::atomic<std::uint64_t*> word = nullptr;
    bool arrived = false;
  };
  Clock& clock_;
  const std::uint64_t epoch_;
  std::vector<Stream> streams_;
  std::size_t missing_;
  std::optional<TimePoint> first_;
  TimePoint last_{0};
};

}  // namespace vma
