#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace vma {

/// What different threads write to lies this far apart: processors fetch cache lines in pairs.
inline constexpr std::size_t cache_lines = 128;

/// The number of this thread, from 1 on, in the order of their first calls.
inline unsigned thread_number() noexcept {
  static constinit std::atomic<unsigned> threads{0};
  static constinit thread_local unsigned number = 0;  // Zero before its first call.
  if (number == 0) number = ++threads;
  return number;
}

/// A few parts of something that all threads write to, such as a counter. A thread always gets the
/// same part; few others have it, so that threads hardly wait for each other's cache lines.
template <typename Part>
class ThreadParts {
 public:
  Part& own() noexcept { return lines_[thread_number() % lines_.size()].part; }

  /// Whether it is so for all parts.
  template <typename Predicate>
  bool all(Predicate&& is_so) const {
    for (const Line& line : lines_) {
      if (!is_so(line.part)) return false;
    }
    return true;
  }
  template <typename Body>
  void for_each(Body&& body) {
    for (Line& line : lines_) body(line.part);
  }

 private:
  struct alignas(cache_lines) Line {
    Part part{};
  };
  std::array<Line, 16> lines_;
};

}  // namespace vma
