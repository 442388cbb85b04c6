// Goal: a chain next to stopped streams needs a hardware queue of its context, like any stream, and
// another context has its own queues. Method: as many stopped streams as there are queues, or one
// fewer, and a chain in the same or another context.

#include "contract/chain_rig.hpp"
#include "contract/contract_test.hpp"

#include <algorithm>
#include <list>

namespace vma {
namespace {

template <typename Machine>
class ChainQueues : public ContractTest<Machine> {
 protected:
  int queues() { return this->driver().device_info(DeviceId{0}).max_queues; }

  /// Streams of the primary context, to be stopped later. Requires: nothing is stopped yet.
  std::vector<BoundStream> new_streams(int count) {
    std::vector<BoundStream> streams;
    for (int i = 0; i < count; ++i) streams.push_back(this->rig().new_stream(rig().context(0)));
    return streams;
  }

  static int count_standing(const std::list<StoppedStream>& stopped) {
    return static_cast<int>(std::count_if(stopped.begin(), stopped.end(),
                                          [](const auto& stream) { return stream.stands_now(); }));
  }
  /// Waits at most 20 s until `count` of them are stopped.
  bool reaches(const std::list<StoppedStream>& stopped, int count) {
    const SteadyClock clock;
    const TimePoint deadline = clock.now() + std::chrono::seconds(20);
    Poll poll;
    while (count_standing(stopped) < count) {
      if (clock.now() > deadline) return false;
      poll.pause();
    }
    return true;
  }

  ContractRig& rig() { return ContractTest<Machine>::rig(); }
};
TYPED_TEST_SUITE(ChainQueues, ContractMachines, MachineNames);

TYPED_TEST(ChainQueues, AChainAndAStoppedStreamForEachQueueButOneStandTogether) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  TestChain chain(rig, rig.context(0));
  const std::vector<BoundStream> streams = this->new_streams(this->queues() - 1);
  chain.launch();
  EXPECT_TRUE(chain.stands());
  std::list<StoppedStream> stopped;
  for (const BoundStream stream : streams) stopped.emplace_back(rig, stream);
  EXPECT_TRUE(this->reaches(stopped, this->queues() - 1));
  EXPECT_EQ(chain.value(), 0u) << "it has run before go";
  chain.go(1);
  EXPECT_TRUE(chain.done(1));
  EXPECT_EQ(chain.value(), 1u);
  for (StoppedStream& stream : stopped) stream.open();
}

TYPED_TEST(ChainQueues, WithAllQueuesHeldOnlyAnotherContextsChainRuns) {
  VMART_IN_CHILD(90);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  TestChain here(rig, rig.context(0));
  TestChain elsewhere(rig, rig.new_context(0));
  const TestMapping source(driver, gpu(0), rig.page(), all_gpus(driver));
  const TestMapping target(driver, gpu(rig.gpus() - 1), rig.page(), all_gpus(driver));
  rig.fill(0, source, 77);
  const std::vector<BoundStream> streams = this->new_streams(this->queues() + 4);
  std::list<StoppedStream> stopped;
  for (const BoundStream stream : streams) stopped.emplace_back(rig, stream);
  ASSERT_TRUE(this->reaches(stopped, this->queues()));

  elsewhere.launch();
  elsewhere.go(1);
  EXPECT_TRUE(elsewhere.done(1));
  EXPECT_EQ(elsewhere.value(), 1u);
  if (rig.gpus() > 1) {
    EXPECT_EQ(rig.finish(elsewhere.stream(),
                         [&] {
                           driver.copy(elsewhere.stream(), target.address(), source.address(),
                                       rig.page());
                         }),
              0);
  }
  here.launch();
  here.go(1);
  EXPECT_TRUE(here.stands());
  EXPECT_EQ(here.value(), 0u);
  EXPECT_EQ(this->count_standing(stopped), this->queues()) << "the chain took a queue";

  for (StoppedStream& stream : stopped) stream.open();
  EXPECT_TRUE(here.done(1));
  EXPECT_EQ(here.value(), 1u);
  if (rig.gpus() > 1) {
    EXPECT_EQ(rig.mismatches(0, target, 77), 0u);
  }
}

}  // namespace
}  // namespace vma
