// Goal: a word only rises, and each rise releases what waits for it; at the end of the process
// every word is opened except those behind which a slot is dark, whatever other threads do with
// theirs meanwhile.
#include "migrate/stops/stop_words.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <vector>

namespace vma {
namespace {

struct WordRig : MemoryRig {
  ~WordRig() { let_all_go(); }
  PinnedWords words{driver(), context(0), memory().chunks().ledger()};
};

TEST(PinnedWords, AreZeroAndEachOnALineOfItsOwn) {
  WordRig rig;
  std::set<std::uint64_t> lines;
  for (int i = 0; i < 200; ++i) {
    std::uint64_t* word = rig.words.take();
    EXPECT_EQ(*word, 0u);
    *word = 1;
    lines.insert(to_integer(address_of(word)) / 64);
  }
  EXPECT_EQ(lines.size(), 200u);
  EXPECT_LE(rig.calls(Call::allocate_pinned), 5);
}

TEST(PinnedWords, ThatWorkMayNameAreNotGivenBack) {
  WordRig rig;
  const auto leaks = rig.memory().chunks().ledger().leak_count();
  {
    PinnedWords words(rig.driver(), rig.context(0), rig.memory().chunks().ledger());
    words.take();
  }
  EXPECT_EQ(rig.calls(Call::free_pinned), 1);
  EXPECT_EQ(*leaks, 0u);
  {
    PinnedWords words(rig.driver(), rig.context(0), rig.memory().chunks().ledger());
    words.take();
    words.keep_for_good();
  }
  EXPECT_EQ(rig.calls(Call::free_pinned), 1);
  EXPECT_EQ(*leaks, 1u);
}

TEST(PinnedWords, ThatAGraphMayNameKeepTheirPageAloneAndAreNoLeak) {
  WordRig rig;
  Ledger& ledger = rig.memory().chunks().ledger();
  const auto leaks = ledger.leak_count(), kept = ledger.kept_count();
  {
    PinnedWords words(rig.driver(), rig.context(0), ledger);
    std::vector<const std::uint64_t*> taken;
    for (int i = 0; i < 200; ++i) taken.push_back(words.take());
    words.leave_to_graphs(taken[100]);
    words.leave_to_graphs(taken[101]);
  }
  const int pages = rig.calls(Call::allocate_pinned);
  EXPECT_GT(pages, 2);
  EXPECT_EQ(rig.calls(Call::free_pinned), pages - 1);
  EXPECT_EQ(*kept, 1u);
  EXPECT_EQ(*leaks, 0u);
}

TEST(StopWord, OnlyRises) {
  WordRig rig;
  StopWord word(rig.words);
  EXPECT_FALSE(word.is_open(1));
  word.open(7);
  EXPECT_TRUE(word.is_open(7));
  word.open(3);
  EXPECT_TRUE(word.is_open(7));
  EXPECT_FALSE(word.is_open(8));
}

TEST(StopWord, LetsGoWhatWaitsForItsEpoch) {
  WordRig rig;
  StopWord word(rig.words);
  const std::uint64_t epoch = next_epoch();
  const BoundStream stream = rig.new_stream(0);
  const WordOperation wait = word.wait_for(epoch);
  rig.machine().batch(stream, {&wait, 1});
  word.open(epoch - 1);
  EXPECT_FALSE(rig.machine().query_stream(stream));
  word.open(epoch);
  EXPECT_TRUE(rig.machine().wait_stream(stream, never));
}

TEST(StopWord, IsOpenForGoodOnceItIsGone) {
  WordRig rig;
  auto word = std::make_unique<StopWord>(rig.words);
  const BoundStream stream = rig.new_stream(0);
  const WordOperation wait = word->wait_for(next_epoch());
  rig.machine().batch(stream, {&wait, 1});
  word.reset();
  EXPECT_TRUE(rig.machine().wait_stream(stream, never));
}

TEST(StopWord, IsOpenedAtTheEndUnlessASlotIsDark) {
  WordRig rig;
  StopWord bright(rig.words), dark(rig.words), dark_no_more(rig.words);
  dark.set_dark(true);
  dark_no_more.set_dark(true);
  dark_no_more.set_dark(false);
  StopWord::open_all();
  EXPECT_TRUE(bright.is_open(UINT64_MAX));
  EXPECT_FALSE(dark.is_open(1));
  EXPECT_TRUE(dark_no_more.is_open(UINT64_MAX));
}

TEST(StopWord, StaysAsItIsWhileDarkBesideTheEnd) {
  WordRig rig;
  std::atomic<bool> done{false};
  ThreadedExecutor threads;
  std::vector<std::unique_ptr<Task>> users;
  constexpr int rounds = 2'000;
  for (int i = 0; i < 2; ++i) {
    users.push_back(threads.spawn("user", [&rig, &done, i] {
      PinnedWords words(rig.machine(), rig.context(i), rig.memory().chunks().ledger());
      for (int round = 0; round < rounds; ++round) {
        StopWord word(words);
        const std::uint64_t epoch = next_epoch();
        word.set_dark(true);
        const bool open = word.is_open(epoch);
        for (int look = 0; look < 20; ++look) EXPECT_EQ(word.is_open(epoch), open);
        word.set_dark(false);
      }
      done = true;
    }));
  }
  while (!done) StopWord::open_all();
  for (const auto& user : users) user->join();
}

TEST(Epochs, RiseAndAreNobodysTwice) {
  ThreadedExecutor threads;
  std::vector<std::vector<std::uint64_t>> seen(3);
  std::vector<std::unique_ptr<Task>> users;
  for (auto& mine : seen) {
    users.push_back(threads.spawn("user", [&mine] {
      for (int i = 0; i < 1'000; ++i) mine.push_back(next_epoch());
    }));
  }
  for (const auto& user : users) user->join();
  std::set<std::uint64_t> all;
  for (const auto& mine : seen) {
    EXPECT_TRUE(std::ranges::is_sorted(mine));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), 3'000u);
  EXPECT_FALSE(all.contains(0));
}

}  // namespace
}  // namespace vma
