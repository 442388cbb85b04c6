#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace vma {

/// Prints the progress of a run on standard error: a bar on a terminal, otherwise a line now and
/// then. Not thread-safe.
class RunProgress {
 public:
  RunProgress();

  /// Announces a step before the cells that may take a while.
  void say(const std::string& what) const;
  void begin(std::size_t cells, std::size_t finished);
  /// Reports that one more cell has ended.
  void step(const std::string& id);
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  void print(const std::string& id) const;

  const bool terminal_;
  bool began_ = false;
  std::size_t cells_ = 0, before_ = 0, done_ = 0;  // `done_` includes `before_`.
  Clock::time_point start_, printed_;
};

}  // namespace vma
