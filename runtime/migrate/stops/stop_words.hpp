#pragma once

#include "driver/driver.hpp"
#include "memory/ledger.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// Words of pinned host memory that devices and the host write and poll, many in one allocation,
/// each on its own cache line.
///
/// A word is handed out only once: work that was enqueued with it may come late. One thread at a
/// time.
class PinnedWords {
 public:
  /// Requires: the context outlives the words.
  PinnedWords(Driver& driver, ContextHandle context, Ledger& ledger);
  ~PinnedWords();  // Gives the memory back. Requires: no other work that names a word is left.
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  /// A word that is zero. Throws: Error{out_of_memory, driver_failure}. Blocks: occasionally in the
  /// driver, so call it before anything is stopped.
  std::uint64_t* take();
  /// Running work names the words: their memory is never given back, and counts as leaked.
  void keep_for_good() noexcept { kept_for_good_ = true; }
  /// A graph of the program may have captured the word, and nothing tells when the last copy of the
  /// graph is gone: the memory around the word is never given back, which the ledger counts as
  /// kept. Requires: the word is from `take`.
  void leave_to_graphs(const std::uint64_t* word) noexcept;

 private:
  struct Page {
    std::byte* bytes = nullptr;
    bool left_to_graphs = false;
  };

  Driver& driver_;
  const ContextHandle context_;
  Ledger& ledger_;
  std::vector<Page> pages_;
  std::size_t left_bytes_ = 0;  // Of the last page.
  bool kept_for_good_ = false;
};

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
