#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace vma {

/// Says on the standard error how far a run has come: a bar where that is a terminal, else a line
/// now and then. Not thread-safe.
class RunProgress {
 public:
  RunProgress();

  /// What comes before the cells and may take a while.
  void say(const std::string& what) const;
  void begin(std::size_t cells, std::size_t finished);
  /// One more cell has ended.
  void step(const std::string& id);
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  void print(const std::string& id) const;

  const bool terminal_;
  bool began_ = false;
  std::size_t cells_ = 0, before_ = 0, done_ = 0;  // `done_` with those before.
  Clock::time_point start_, printed_;
};

}  // namespace vma
