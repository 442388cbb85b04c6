#include "migrate/stops/stop_words.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/process_exit.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>

namespace vma {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t line_bytes = 64;  // Of the processor's cache: a poll shall not share it.
static_assert(page_bytes % line_bytes == 0);

/// `busy` while a thread works on the entry or its word, for nanoseconds.
enum class EntryState { unused, busy, listed, dark };

struct Entry {
  std::atomic<EntryState> standing{EntryState::unused};
  std::atomic<std::uint64_t*> word{nullptr};
  std::atomic<pid_t> process{0};
};

// The words of the process, for `open_all`, which may take no lock.
constexpr std::size_t entries_max = 4096;
std::array<Entry, entries_max> entries{};

void open_word(std::uint64_t* address, std::uint64_t epoch) noexcept {
  // A device reads the word over the bus, for which a release store suffices. The word never falls:
  // what was opened for good stays open.
  std::atomic_ref<std::uint64_t> word(*address);
  std::uint64_t open_to = word.load(std::memory_order_relaxed);
  while (open_to < epoch &&
         !word.compare_exchange_weak(open_to, epoch, std::memory_order_release)) {
  }
}

std::size_t enlist(std::uint64_t* word) {
  for (std::size_t i = 0; i < entries_max; ++i) {
    EntryState unused = EntryState::unused;
    if (!entries[i].standing.compare_exchange_strong(unused, EntryState::busy)) continue;
    entries[i].word = word;
    entries[i].process = getpid();
    entries[i].standing = EntryState::listed;
    return i;
  }
  throw Error(ErrorKind::driver_failure, "vma::StopWord",
              fmt::format("{} stops of one process are in use", entries_max));
}

void change(Entry& entry, EntryState to) noexcept {
  Poll poll;
  EntryState seen = entry.standing;
  while (seen == EntryState::busy || !entry.standing.compare_exchange_weak(seen, to)) {
    if (seen == EntryState::busy) poll.pause();
    seen = entry.standing;
  }
}

bool any_is_dark() noexcept {
  return std::ranges::any_of(entries, [here = getpid()](const Entry& entry) {
    return entry.standing == EntryState::dark && entry.process == here;
  });
}

/// `StopWord::set_dark(false)` opens words that were dark when the exit began. While one is dark,
/// the exiting thread must not go on to calls that may wait for stopped work while holding a lock
/// of the driver: the slot would stay dark for ever.
void open_at_exit() {
  constexpr std::chrono::seconds limit(1);
  StopWord::open_all();
  SteadyClock wall;
  if (!poll_until(wall, wall.now() + limit, [] { return !any_is_dark(); })) {
    CopyScopes::process().stay_held_back();
  }
  StopWord::open_all();
}

void prepare_for_exit() {
  static std::atomic<int> prepared{0};
  set_last_words(&StopWord::open_all);
  ProcessExit::act_once(prepared, ProcessExit::Stage::open_stops, &open_at_exit);
}

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

std::uint64_t next_epoch() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Once the word is listed, nothing fails: a listed word must not outlive its object.
StopWord::StopWord(PinnedWords& words)
    : word_((prepare_for_exit(), words.take())), entry_(enlist(word_)) {
  if (ProcessExit::begun()) open(UINT64_MAX);
}

StopWord::~StopWord() {
  open(UINT64_MAX);
  change(entries[entry_], EntryState::unused);
}

WordOperation StopWord::wait_for(std::uint64_t epoch) const noexcept {
  return {WordOperation::Kind::wait_until_at_least, address_of(word_), epoch};
}

void StopWord::open(std::uint64_t epoch) noexcept {
  open_word(word_, epoch);
}

bool StopWord::is_open(std::uint64_t epoch) const noexcept {
  return std::atomic_ref<std::uint64_t>(*word_).load(std::memory_order_acquire) >= epoch;
}

void StopWord::set_dark(bool dark) noexcept {
  change(entries[entry_], dark ? EntryState::dark : EntryState::listed);
  // The exit has skipped it.
  if (!dark && ProcessExit::begun()) open(UINT64_MAX);
}

void StopWord::open_all() noexcept {
  const pid_t here = getpid();
  for (Entry& entry : entries) {
    // Busy until it is open, so that the word stays alive and no slot goes dark meanwhile.
    EntryState listed = EntryState::listed;
    if (!entry.standing.compare_exchange_strong(listed, EntryState::busy)) continue;
    // A forked child that exits has its parent's entries, and its parent's words.
    if (entry.process == here) open_word(entry.word, UINT64_MAX);
    entry.standing = EntryState::listed;
  }
}

}  // namespace vma
