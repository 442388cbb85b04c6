#pragma once

#include "driver/driver.hpp"
#include "migrate/gates/pinned_words.hpp"

#include <cstddef>
#include <cstdint>

namespace vma {

/// Larger than any epoch returned in this process before: what stops wait for. Any thread.
std::uint64_t next_epoch() noexcept;

/// A word that stopped work waits for. It only rises, so that an old stop cannot stop again and an
/// old opening releases nothing new.
///
/// Created and destroyed by the thread that owns it; opened from any thread.
class StopWord {
 public:
  /// Throws: what `PinnedWords::take` throws, Error{driver_failure} if the process has too many.
  explicit StopWord(PinnedWords& words);
  ~StopWord();  // Opens for good.
  StopWord(const StopWord&) = delete;
  StopWord& operator=(const StopWord&) = delete;

  /// An operation that waits until `open` is called with this epoch or a later one.
  WordOperation wait_for(std::uint64_t epoch) const noexcept;
  const std::uint64_t* word() const noexcept { return word_; }
  /// Only stores to host memory.
  void open(std::uint64_t epoch) noexcept;
  bool is_open(std::uint64_t epoch) const noexcept;
  /// I2: while a slot is dark, `open_all` skips the word. The caller checks `is_open` afterwards:
  /// `open_all` may have run before.
  void set_dark(bool dark) noexcept;

  /// Opens for good every word of the process behind which no slot is dark: when the process exits
  /// or a check fails. Only stores to host memory.
  static void open_all() noexcept;

 private:
  std::uint64_t* const word_;
  const std::size_t entry_;  // In the process-wide list.
};

}  // namespace vma
