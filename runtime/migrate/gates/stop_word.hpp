#pragma once

#include "driver/driver.hpp"
#include "migrate/gates/pinned_words.hpp"

#include <cstddef>
#include <cstdint>

namespace vma {

/// Larger than any that was given out in the process before: what stops wait for. Any thread.
std::uint64_t next_epoch() noexcept;

/// A word that stopped work waits for. It only rises, so that an old stop cannot stop again and an
/// old opening lets nothing new go.
///
/// Made and destroyed by the thread that owns it; opened from any thread.
class StopWord {
 public:
  /// Throws: what `PinnedWords::take` throws, Error{driver_failure} if the process has too many.
  explicit StopWord(PinnedWords& words);
  ~StopWord();  // Opens for good.
  StopWord(const StopWord&) = delete;
  StopWord& operator=(const StopWord&) = delete;

  /// What stands until `open` with this epoch or a later one.
  WordOperation wait_for(std::uint64_t epoch) const noexcept;
  /// Stores to host memory, nothing else.
  void open(std::uint64_t epoch) noexcept;
  bool is_open(std::uint64_t epoch) const noexcept;
  /// I2: while a slot is dark, `open_all` passes over the word. Whoever sets it looks at `is_open`
  /// afterwards: `open_all` may have come before.
  void set_dark(bool dark) noexcept;

  /// Opens every word of the process behind which no slot is dark, for good: when the process exits
  /// or a check fails. Stores to host memory, nothing else.
  static void open_all() noexcept;

 private:
  std::uint64_t* const word_;
  const std::size_t entry_;  // In the list of the process.
};

}  // namespace vma
