// Goal: a chunk that makes way goes to its next place, and loses what its users expect to wait
// there longer. Method: random uses on machines like H200s; each answer is compared with one that
// is computed from the snapshot alone, also after other chunks and other rooms were asked for.
#include "placement/auto/victim_search.hpp"

#include "placement/books/chunk_tables.hpp"
#include "support/test_run.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class VictimLossesTest : public testing::Test {
 protected:
  static constexpr std::size_t gpus = 3, places = 4, chunks = 20;
  static constexpr double horizon_seconds = 4;

  VictimLossesTest() {
    for (std::uint32_t i = 0; i < chunks; ++i) {
      const ChunkTables::NewChunk its{small_chunk, draw_place(places)};
      books_.add(i + 1, "", {&its, 1});
    }
  }

  std::uint32_t draw(std::size_t below) { return static_cast<std::uint32_t>(random_() % below); }
  PlaceId draw_place(std::size_t below) { return PlaceId{static_cast<std::uint8_t>(draw(below))}; }
  void use_some() {
    books_.set_now(books_.now() + 100ms);
    for (int i = 0; i < 30; ++i)
      books_.used(ChunkId{draw(chunks)}, draw_place(gpus), draw(3) * small_pass, small_pass);
  }
  /// Some places are full.
  Room draw_room() {
    Room room{Snapshot(books_)};
    for (std::uint8_t at = 0; at < places; ++at)
      if (draw(2) == 0) room.take(PlaceId{at}, room.at(PlaceId{at}));
    return room;
  }
  double lost_at(ChunkId chunk, PlaceId to) const {
    const Snapshot snapshot(books_);
    Outlook outlook;
    outlook.read(snapshot, chunk, horizon_seconds);
    return std::max(0.0,
                    outlook.all_seconds_at(to) - outlook.all_seconds_at(snapshot.chunk(chunk).at));
  }
  void compare(ChunkId chunk) {
    const Snapshot snapshot(books_);
    const Room room = draw_room();
    const std::optional<PlaceId> to = next_place(snapshot, chunk, room);
    const VictimLosses::Way* way = losses_.next(snapshot, chunk, room);
    ASSERT_EQ(way != nullptr, to.has_value());
    if (way == nullptr) return;
    EXPECT_EQ(way->to, *to);
    EXPECT_EQ(way->lost, lost_at(chunk, *to));
  }

  std::mt19937_64 random_{run_seed()};
  const PolicyMachine machine_ = PolicyMachine::h200(gpus, 1 << 30, 1 << 30);
  ChunkTables books_{machine_.places(), machine_.costs};
  const ShiftWatch shifts_{{}};
  UseEndings endings_{Time(0), 1};  // No use ends.
  VictimLosses losses_{shifts_, endings_, horizon_seconds};
};

TEST_F(VictimLossesTest, AreThoseOfTheSnapshot) {
  for (int call = 0; call < 50; ++call) {
    use_some();
    losses_.begin();
    for (int i = 0; i < 100; ++i) compare(ChunkId{draw(chunks)});
  }
}

TEST_F(VictimLossesTest, AreWeighedOnceACall) {
  use_some();
  const ChunkId chunk{0};
  books_.moved(chunk, PlaceId{0});
  books_.used(chunk, PlaceId{0}, small_pass, 0);
  const Room room{Snapshot(books_)};
  losses_.begin();
  const double before = losses_.next(Snapshot(books_), chunk, room)->lost;
  books_.used(chunk, PlaceId{0}, 10 * small_pass, 0);
  EXPECT_EQ(losses_.next(Snapshot(books_), chunk, room)->lost, before);
  losses_.begin();
  EXPECT_GT(losses_.next(Snapshot(books_), chunk, room)->lost, before);
}

}  // namespace
}  // namespace v1
}  // namespace vma
