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

}  // namespace vma
