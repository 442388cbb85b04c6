// Goal: each proposal is one line with its final outcome, even if parts of its history are missing.
#include "control/explained_moves.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

Decision decision(DecisionKind kind, std::uint32_t slot) {
  Decision decision;
  decision.kind = kind;
  decision.chunk = DecidedChunk{1, 0x10000, slot, 4096, ""};
  decision.from = gpu(0);
  decision.to = gpu(1);
  return decision;
}

TEST(ExplainedMoves, JoinWishAndOutcomeOfEachChunk) {
  std::vector<Decision> told;
  for (const std::uint32_t slot : {0u, 2u}) told.push_back(decision(DecisionKind::planned, slot));
  told[0].why = "it is hot";
  told[0].predicted = MoveTimes{Time(7), Time(1)};
  for (const std::uint32_t slot : {0u, 2u}) told.push_back(decision(DecisionKind::started, slot));
  told.push_back(decision(DecisionKind::moved, 0));
  told.back().happened = MoveTimes{Time(9), Time(2)};
  told.push_back(decision(DecisionKind::not_moved, 2));
  told.back().reason = "busy";
  const auto lines = explained_moves(told, 8192, 10);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].address, 0x10000u + 2 * 8192);
  EXPECT_EQ(lines[0].verdict, "not_moved: busy");
  EXPECT_FALSE(lines[0].took);
  EXPECT_EQ(lines[1].reason, "it is hot");
  EXPECT_EQ(lines[1].verdict, "moved");
  EXPECT_EQ(lines[1].predicted, Time(7));
  EXPECT_EQ(lines[1].took, Time(9));
}

TEST(ExplainedMoves, ShowTheNewestAndEachRefusalByItself) {
  std::vector<Decision> told(3, decision(DecisionKind::refused, 0));
  for (std::size_t i = 0; i < told.size(); ++i) told[i].reason = "no room " + std::to_string(i);
  told.push_back(decision(DecisionKind::moved, 0));  // Its proposal is no longer in the log.
  told.push_back({});
  const auto lines = explained_moves(told, 8192, 3);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].verdict, "moved");
  EXPECT_EQ(lines[1].verdict, "no room 2");
  EXPECT_EQ(lines[2].verdict, "no room 1");
}

}  // namespace
}  // namespace vma
