#include "migrate/gates/pinned_words.hpp"

#include <fmt/format.h>

namespace vma {
namespace {
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t line_bytes = 64;  // Of the processor's cache: a poll shall not share it.
static_assert(page_bytes % line_bytes == 0);
}  // namespace

PinnedWords::PinnedWords(Driver& driver, ContextHandle context, Ledger& ledger)
    : driver_(driver), context_(context), ledger_(ledger) {}

PinnedWords::~PinnedWords() {
  for (std::byte* page : pages_) {
    if (kept_for_good_) {
      ledger_.leaked(fmt::format("{} bytes of words that work may still name", page_bytes));
      continue;
    }
    ledger_.undo("words of stops", [&] { driver_.free_pinned(context_, page); });
  }
}

std::uint64_t* PinnedWords::take() {
  if (left_bytes_ == 0) {
    pages_.reserve(pages_.size() + 1);
    pages_.push_back(static_cast<std::byte*>(driver_.allocate_pinned(context_, page_bytes)));
    left_bytes_ = page_bytes;
  }
  std::byte* word = pages_.back() + (page_bytes - left_bytes_);
  left_bytes_ -= line_bytes;
  return reinterpret_cast<std::uint64_t*>(word);
}

}  // namespace vma
