// Goal: streams are stopped one by one as far as no two stops can wait for each other; otherwise
// the legacy stream is stopped in place of all that it orders, and never beside one of them.
#include "migrate/gates/gate_plan.hpp"

#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"

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

AttachedStreams::Stream unknown_stream(ContextHandle context, std::uint64_t handle) {
  return {{context, StreamHandle{handle}}, 0, {}};
}

std::vector<std::uint64_t> handles(const std::vector<BoundStream>& streams) {
  std::vector<std::uint64_t> numbers;
  for (const BoundStream& it : streams) numbers.push_back(static_cast<std::uint64_t>(it.handle));
  return numbers;
}

using Numbers = std::vector<std::uint64_t>;

/// On a machine with 8 queues for each context.
class GatePlanTest : public testing::Test {
 protected:
  GatePlan plan_gate(const std::vector<AttachedStreams::Stream>& streams) {
    return vma::plan_gate(streams, topology_);
  }
  /// The handles of all stops, in order.
  Numbers stopped(const std::vector<AttachedStreams::Stream>& streams) {
    std::vector<BoundStream> each;
    for (const GateStop& stop : plan_gate(streams).stops) each.push_back(stop.stream);
    return handles(each);
  }

  SimDriver driver_{load_machine("test-2")};
  const Topology topology_ = Topology::discover(driver_, {});
};

TEST_F(GatePlanTest, OfNothingIsNothing) {
  const GatePlan plan = plan_gate({});
  EXPECT_TRUE(plan.stops.empty());
  EXPECT_TRUE(plan.stops_in.empty());
}

TEST_F(GatePlanTest, StopsEachNonBlockingStreamByItself) {
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

TEST_F(GatePlanTest, StopsTheLegacyStreamInPlaceOfAllThatItOrders) {
  const std::vector streams{bound_stream(here, 11), bound_stream(here, 2), bound_stream(here, 12),
                            bound_stream(here, 0)};
  const GatePlan plan = plan_gate(streams);
  ASSERT_EQ(plan.stops.size(), 1u);
  EXPECT_EQ(plan.stops[0].stream.context, here);
  EXPECT_EQ(plan.stops[0].stream.handle, StreamHandle{0});
  EXPECT_EQ(handles(plan.stops[0].capture_watched), (Numbers{0, 11, 12}));
  EXPECT_EQ(plan.stops_in.at(here), 1);
}

TEST_F(GatePlanTest, StopsBlockingStreamsByThemselvesWhileNothingSpeaksAgainstIt) {
  const GatePlan plan =
      plan_gate({bound_stream(here, 11), bound_stream(here, 12), bound_stream(there, 13)});
  ASSERT_EQ(plan.stops.size(), 3u);
  EXPECT_EQ(handles(plan.stops[0].capture_watched), Numbers{11});
  EXPECT_EQ(handles(plan.stops[1].capture_watched), Numbers{12});
  EXPECT_EQ(plan.stops_in, (std::map<ContextHandle, int>{{here, 2}, {there, 1}}));
}

TEST_F(GatePlanTest, StopsBlockingStreamsTogetherOnceOneMayHaveWaitedForAnother) {
  AttachedStreams::Stream marked = bound_stream(here, 11), alone = bound_stream(there, 13);
  marked.together = alone.together = true;
  // One that came later, and was not marked, would wait for a stop of the legacy stream too.
  const GatePlan plan = plan_gate({marked, bound_stream(here, 12), alone});
  ASSERT_EQ(plan.stops.size(), 2u);
  EXPECT_EQ(plan.stops[0].stream.handle, StreamHandle{0});
  EXPECT_EQ(handles(plan.stops[0].capture_watched), (Numbers{0, 11, 12}));
  EXPECT_EQ(plan.stops[1].stream.handle, StreamHandle{13}) << "it has nothing to wait for";
  EXPECT_EQ(stopped({bound_stream(here, 12), unknown_stream(here, 14), marked}), (Numbers{0, 14}));
}

TEST_F(GatePlanTest, StopsBlockingStreamsTogetherThatFitNoQueues) {
  const int queues = topology_.info(DeviceId{0}).max_queues;
  std::vector<AttachedStreams::Stream> streams{unknown_stream(here, 11)};
  for (int i = 1; i < queues; ++i) streams.push_back(bound_stream(here, 11 + i));
  streams.push_back(bound_stream(here, 12));  // Attached twice, stopped once.
  EXPECT_EQ(plan_gate(streams).stops_in.at(here), queues);
  streams.push_back(bound_stream(here, 11 + queues));
  EXPECT_EQ(stopped(streams), (Numbers{11, 0}));
}

TEST_F(GatePlanTest, StopsAStreamOfUnknownKindByItself) {
  EXPECT_EQ(stopped({bound_stream(here, 11), bound_stream(here, 12), unknown_stream(here, 13)}),
            (Numbers{11, 12, 13}));
  EXPECT_EQ(stopped({bound_stream(here, 0), unknown_stream(here, 13)}), (Numbers{0, 13}));
}

TEST_F(GatePlanTest, KnowsWhereGraphsMayBeLaunched) {
  AttachedStreams::Stream plain = free_stream(here, 11), plain_bound = bound_stream(there, 2);
  plain.graphs = plain_bound.graphs = false;
  const GatePlan plan = plan_gate({plain, free_stream(here, 13), plain_bound});
  ASSERT_EQ(plan.stops.size(), 3u);
  EXPECT_FALSE(plan.stops[0].graphs);
  EXPECT_TRUE(plan.stops[1].graphs);
  EXPECT_FALSE(plan.stops[2].graphs);
  EXPECT_TRUE(plan_gate({plain_bound, bound_stream(there, 14)}).stops[0].graphs)
      << "one of those that the legacy stream orders may";
}

TEST_F(GatePlanTest, KeepsContextsAndKindsApart) {
  const std::vector streams{bound_stream(here, 11), free_stream(here, 12), bound_stream(there, 2),
                            free_stream(there, 13), bound_stream(here, 14)};
  const GatePlan plan = plan_gate(streams);
  EXPECT_EQ(plan.stops_in, (std::map<ContextHandle, int>{{here, 3}, {there, 2}}));
  EXPECT_EQ(stopped(streams), (Numbers{11, 12, 0, 13, 14}));
  EXPECT_EQ(plan.stops[2].stream.context, there);
  EXPECT_EQ(handles(plan.stops[2].capture_watched), Numbers{0});
}

TEST_F(GatePlanTest, StopsAStreamOnceHoweverOftenItIsNamed) {
  const std::vector streams{free_stream(here, 11), free_stream(here, 11)};
  EXPECT_EQ(plan_gate(streams).stops.size(), 1u);
}

}  // namespace
}  // namespace vma
