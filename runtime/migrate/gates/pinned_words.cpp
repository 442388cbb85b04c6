#include "migrate/gates/pinned_words.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <functional>

namespace vma {
namespace {
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t line_bytes = 64;  // Of the processor's cache: a poll shall not share it.
static_assert(page_bytes % line_bytes == 0);
}  // namespace

PinnedWords::PinnedWords(Driver& driver, ContextHandle context, Ledger& ledger)
    : driver_(driver), context_(context), ledger_(ledger) {}

PinnedWords::~PinnedWords() {
  for (const Page& page : pages_) {
    if (kept_for_good_) {
      ledger_.leaked("{} bytes of words that running work may still name", page_bytes);
    } else if (page.left_to_graphs) {
      ledger_.kept("a page of words that a graph of the program may name");
    } else {
      ledger_.undo("words of stops", [&] { driver_.free_pinned(context_, page.bytes); });
    }
  }
}

std::uint64_t* PinnedWords::take() {
  if (left_bytes_ == 0) {
    pages_.reserve(pages_.size() + 1);
    pages_.push_back(
        {static_cast<std::byte*>(driver_.allocate_pinned(context_, page_bytes)), false});
    left_bytes_ = page_bytes;
  }
  std::byte* word = pages_.back().bytes + (page_bytes - left_bytes_);
  left_bytes_ -= line_bytes;
  return reinterpret_cast<std::uint64_t*>(word);
}

void PinnedWords::leave_to_graphs(const std::uint64_t* word) noexcept {
  const auto* const byte = reinterpret_cast<const std::byte*>(word);
  const auto holds = [&](const Page& page) {
    return !std::less<>()(byte, page.bytes) && std::less<>()(byte, page.bytes + page_bytes);
  };
  const auto page = std::ranges::find_if(pages_, holds);
  VMART_CHECK(page != pages_.end(), "each word lies in a page of its owner");
  page->left_to_graphs = true;
}

}  // namespace vma
