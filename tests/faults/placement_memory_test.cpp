// Goal: of what decides where memory should be, whatever outlives a call in which an allocation
// failed is consistent. Method: random calls, of which some allocations fail, beside a model that
// changes only if the call did not throw. Policies are not among it: one that had no memory is
// replaced.
#include "faults/random_failures.hpp"

#include "placement/books/chunk_tables.hpp"
#include "placement/deciding/decision_path.hpp"
#include "placement/auto/victim_search.hpp"
#include "support/test_run.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

TEST(ValueOrderWithoutMemory, ListsEachChunkOnce) {
  constexpr std::uint32_t chunks = 50;
  ValueOrder order;
  std::mt19937_64 random(run_seed());
  allocation_fails = fails;
  fails_one_in = 3;
  for (int i = 0; i < 2'000; ++i) {
    const ChunkId chunk{static_cast<std::uint32_t>(random() % chunks)};
    const PlaceId at{static_cast<std::uint8_t>(random() % 3)};
    under_test = true;
    try {
      if (random() % 8 == 0) {
        order.drop(chunk);
      } else {
        order.put(chunk, at, static_cast<double>(random() % 40), 1);
      }
    } catch (const std::bad_alloc&) {
    }
    under_test = false;
  }
  fails_one_in = 0;
  allocation_fails = nullptr;
  std::set<std::uint32_t> seen;
  for (std::uint8_t place = 0; place < 3; ++place) {
    for (auto chunk = order.first(PlaceId{place}); chunk != ChunkRow::none;
         chunk = order.next(chunk)) {
      EXPECT_TRUE(seen.insert(chunk).second) << chunk;
    }
  }
  for (const std::uint32_t chunk : seen) order.drop(ChunkId{chunk});
  for (std::uint8_t place = 0; place < 3; ++place) {
    EXPECT_EQ(order.first(PlaceId{place}), ChunkRow::none);
  }
}

/// What the books were told about an allocation.
struct BookedRows {
  ChunkId first{};
  std::size_t chunks = 0;
  std::string tag;
  std::vector<double> passes;  // Of the hint about each chunk; 0: none.
  std::vector<std::vector<bool>> reach;
};

/// Plays random calls on books. One that throws must have changed nothing.
class BooksUser {
 public:
  BooksUser() : random_(run_seed()), books_(books()) {}

  void call() {
    switch (random_() % 8) {
      case 0: return add();
      case 1: return remove();
      case 2: return hint();
      case 3: return limit();
      case 4: return forget();
      case 5: return drop_or_restore();
      default: return use();
    }
  }
  /// Requires: nothing fails.
  void check() const {
    books_.check_invariants();
    const Snapshot snapshot(books_);
    for (const BookedRows& rows : rows_) {
      for (std::size_t i = 0; i < rows.chunks; ++i) {
        const ChunkId chunk = nth(rows, i);
        const Hint* const hint = snapshot.hint(chunk);
        ASSERT_EQ(hint == nullptr ? 0 : hint->passes, rows.passes[i]);
        ASSERT_EQ(snapshot.tag(chunk), rows.tag);
        for (std::size_t at = 0; at < places; ++at)
          ASSERT_EQ(snapshot.may_lie(chunk, PlaceId{static_cast<std::uint8_t>(at)}),
                    rows.reach[i][at]);
      }
    }
  }

 private:
  static constexpr std::size_t places = 3, rows_max = 40;

  static ChunkTables books() {
    std::vector<PlaceState> states{{gpu(0), 1 << 30}, {gpu(1), 1 << 30}, {host(0), 1 << 30}};
    return ChunkTables(std::move(states), MachineCosts(2, places));
  }
  static ChunkId nth(const BookedRows& rows, std::size_t chunk) {
    return ChunkId{static_cast<std::uint32_t>(rows.first) + static_cast<std::uint32_t>(chunk)};
  }
  PlaceId any_place(std::size_t count) {
    return PlaceId{static_cast<std::uint8_t>(random_() % count)};
  }
  BookedRows& any() { return rows_[random_() % rows_.size()]; }
  /// What may throw, as the library would call it.
  template <typename Call>
  static bool attempt(Call&& call) {
    under_test = true;
    try {
      call();
      under_test = false;
      return true;
    } catch (const std::bad_alloc&) {
      under_test = false;
      return false;
    }
  }

  void add() {
    if (rows_.size() == rows_max) return;
    BookedRows rows;
    rows.chunks = 1 + random_() % 5;
    rows.tag = "a tag that is too long for a short string, " + std::to_string(random_() % 50);
    rows.passes.resize(rows.chunks);
    rows.reach.assign(rows.chunks, std::vector<bool>(places, true));
    const std::vector<ChunkTables::NewChunk> chunks(rows.chunks, {4096, any_place(places)});
    if (attempt([&] { rows.first = books_.add(++added_, rows.tag, chunks); }))
      rows_.push_back(std::move(rows));
  }
  void remove() {
    if (rows_.empty()) return;
    BookedRows& rows = any();
    EXPECT_TRUE(attempt([&] { books_.remove(rows.first, rows.chunks); }));
    rows = rows_.back();
    rows_.pop_back();
  }
  void hint() {
    if (rows_.empty()) return;
    BookedRows& rows = any();
    const std::size_t chunk = random_() % rows.chunks;
    Hint hint;
    hint.device = gpu(0);
    hint.passes = static_cast<double>(1 + random_() % 100);
    if (attempt([&] { books_.hinted(nth(rows, chunk), hint); })) rows.passes[chunk] = hint.passes;
  }
  void limit() {
    if (rows_.empty()) return;
    BookedRows& rows = any();
    const std::size_t chunk = random_() % rows.chunks;
    std::vector<bool> reach(places);
    for (std::size_t at = 0; at < places; ++at) reach[at] = random_() % 2 == 0;
    if (attempt([&] { books_.set_reach(nth(rows, chunk), books_.reach_number(reach)); }))
      rows.reach[chunk] = reach;
  }
  void forget() {
    if (rows_.empty()) return;
    BookedRows& rows = any();
    const std::size_t chunk = random_() % rows.chunks;
    EXPECT_TRUE(attempt([&] { books_.forget_hint(nth(rows, chunk)); }));
    rows.passes[chunk] = 0;
    EXPECT_TRUE(attempt([&] { books_.clear_changed(); }));
  }
  void drop_or_restore() {
    if (rows_.empty()) return;
    const BookedRows& rows = any();
    const std::size_t chunk = random_() % rows.chunks;
    EXPECT_TRUE(attempt([&] {
      books_.set_dropped(nth(rows, chunk), random_() % 2 == 0);
      books_.moved(nth(rows, chunk), any_place(places));
    }));
  }
  void use() {
    if (rows_.empty()) return;
    const BookedRows& rows = any();
    const std::size_t chunk = random_() % rows.chunks;
    attempt([&] { books_.used(nth(rows, chunk), any_place(2), 100, 0); });
  }

  std::mt19937_64 random_;
  ChunkTables books_;
  std::vector<BookedRows> rows_;
  std::uint32_t added_ = 0;
};

TEST(ChunkTablesWithoutMemory, AreAsBeforeACallThatThrew) {
  BooksUser user;
  allocation_fails = fails;
  for (int i = 0; i < 5'000 && !testing::Test::HasFailure(); ++i) {
    fails_one_in = 3;
    user.call();
    fails_one_in = 0;
    user.check();
  }
  allocation_fails = nullptr;
}

TEST(DecisionPathWithoutMemory, TellsThePolicyWhatIsGoneOnce) {
  class Counting : public Policy {
   public:
    void on_gone(ChunkId) override { ++gone; }
    int gone = 0;
  };
  DecisionPath path({{gpu(0), 1 << 30}}, MachineCosts(1, 1), {}, {});
  Counting policy;
  int removed = 0;
  allocation_fails = fails;
  fails_one_in = 3;
  const auto attempt = [](const std::function<void()>& call) {
    under_test = true;
    try {
      call();
    } catch (const std::bad_alloc&) {
    }
    under_test = false;
  };
  const auto nothing = [](Policy&, const Snapshot&, Plan&) {};
  for (std::uint32_t i = 1; i <= 500; ++i) {
    const std::vector<ChunkTables::NewChunk> chunk(1, {4096, PlaceId{0}});
    std::optional<ChunkId> added;
    attempt([&] { added = path.books().add(i, "", chunk); });
    if (added) {
      bool dropped = false;
      for (int tries = 0; tries < 100 && !dropped; ++tries)
        attempt([&] { dropped = path.drop_moves(*added, 1) == 0; });
      path.gone(*added, 1);
      ++removed;
    }
    attempt([&] { path.question(nothing).ask(policy); });
  }
  fails_one_in = 0;
  allocation_fails = nullptr;
  path.question(nothing).ask(policy);
  EXPECT_GT(removed, 100);
  EXPECT_EQ(policy.gone, removed);
}

}  // namespace
}  // namespace vma
