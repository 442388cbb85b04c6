// Goal: each non-blocking stream is stopped by itself, and in a context with several others only
// the legacy stream is stopped, so that no two stops wait for each other.
#include "migrate/gates/gate_plan.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr ContextHandle here{100}, there{200};

AttachedStreams::Stream stream(ContextHandle context, std::uint64_t handle, StreamKind kind) {
  return {{context, StreamHandle{handle}}, 0, kind};
}
AttachedStreams::Stream free_stream(ContextHandle context, std::uint64_t handle) {
  return stream(context, handle, StreamKind::non_blocking);
}
AttachedStreams::Stream bound_stream(ContextHandle context, std::uint64_t handle) {
  return stream(context, handle, StreamKind::blocking);
}

std::vector<std::uint64_t> handles(const std::vector<BoundStream>& streams) {
  std::vector<std::uint64_t> numbers;
  for (const BoundStream& it : streams) numbers.push_back(static_cast<std::uint64_t>(it.handle));
  return numbers;
}

using Numbers = std::vector<std::uint64_t>;

TEST(GatePlan, OfNothingIsNothing) {
  const GatePlan plan = plan_gate({});
  EXPECT_TRUE(plan.stops.empty());
  EXPECT_TRUE(plan.stops_in.empty());
}

TEST(GatePlan, StopsEachNonBlockingStreamByItself) {
  const std::vector streams{free_stream(here, 11), free_stream(here, 12), free_stream(there, 13)};
  const GatePlan plan = plan_gate(streams);
  ASSERT_EQ(plan.stops.size(), 3u);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(plan.stops[i].stream.context, streams[i].bound.context);
    EXPECT_EQ(plan.stops[i].stream.handle, streams[i].bound.handle);
    EXPECT_EQ(handles(plan.stops[i].capture_watched),
              Numbers{static_cast<std::uint64_t>(streams[i].bound.handle)});
  }
  EXPECT_EQ(plan.stops_in, (std::map<ContextHandle, int>{{here, 2}, {there, 1}}));
}

TEST(GatePlan, StopsTheLegacyStreamInPlaceOfAllThatItOrders) {
  const std::vector streams{bound_stream(here, 11), bound_stream(here, 2), bound_stream(here, 12),
                            bound_stream(here, 0)};
  const GatePlan plan = plan_gate(streams);
  ASSERT_EQ(plan.stops.size(), 1u);
  EXPECT_EQ(plan.stops[0].stream.context, here);
  EXPECT_EQ(plan.stops[0].stream.handle, StreamHandle{0});
  EXPECT_EQ(handles(plan.stops[0].capture_watched), (Numbers{0, 11, 12}));
  EXPECT_EQ(plan.stops_in.at(here), 1);
}

TEST(GatePlan, StopsTheOnlyBlockingStreamOfAContextByItself) {
  const std::vector streams{bound_stream(here, 11), free_stream(here, 12), bound_stream(there, 13),
                            bound_stream(here, 11)};
  const GatePlan plan = plan_gate(streams);
  ASSERT_EQ(plan.stops.size(), 3u);
  EXPECT_EQ(plan.stops[0].stream.handle, StreamHandle{11});
  EXPECT_EQ(handles(plan.stops[0].capture_watched), Numbers{11});
  EXPECT_EQ(plan.stops[2].stream.handle, StreamHandle{13});
  AttachedStreams::Stream unknown = bound_stream(here, 12);
  unknown.kind.reset();
  const GatePlan apart = plan_gate(std::vector{bound_stream(here, 11), unknown});
  ASSERT_EQ(apart.stops.size(), 2u);
  EXPECT_EQ(apart.stops[0].stream.handle, StreamHandle{11});
}

TEST(GatePlan, KnowsWhereGraphsMayBeLaunched) {
  AttachedStreams::Stream plain = free_stream(here, 11), plain_bound = bound_stream(there, 2);
  plain.graphs = plain_bound.graphs = false;
  const GatePlan plan = plan_gate(std::vector{plain, free_stream(here, 13), plain_bound});
  ASSERT_EQ(plan.stops.size(), 3u);
  EXPECT_FALSE(plan.stops[0].graphs);
  EXPECT_TRUE(plan.stops[1].graphs);
  EXPECT_FALSE(plan.stops[2].graphs);
  EXPECT_TRUE(plan_gate(std::vector{plain_bound, bound_stream(there, 14)}).stops[0].graphs)
      << "one of those that the legacy stream orders may";
}

TEST(GatePlan, KeepsContextsAndKindsApart) {
  const std::vector streams{bound_stream(here, 11), free_stream(here, 12), bound_stream(there, 2),
                            free_stream(there, 13), bound_stream(here, 14)};
  const GatePlan plan = plan_gate(streams);
  ASSERT_EQ(plan.stops.size(), 4u);
  EXPECT_EQ(plan.stops_in, (std::map<ContextHandle, int>{{here, 2}, {there, 2}}));
  EXPECT_EQ(plan.stops[0].stream.handle, StreamHandle{0});
  EXPECT_EQ(handles(plan.stops[0].capture_watched), (Numbers{0, 11, 14}));
  EXPECT_EQ(plan.stops[2].stream.context, there);
  EXPECT_EQ(handles(plan.stops[2].capture_watched), Numbers{0});
}

TEST(GatePlan, StopsAStreamOnceHoweverOftenItIsNamed) {
  const std::vector streams{free_stream(here, 11), free_stream(here, 11)};
  EXPECT_EQ(plan_gate(streams).stops.size(), 1u);
}

}  // namespace
}  // namespace vma
