// Goal: blocks of a graph that are freed outside of its capture come back once the graph and that
// work have ended, whatever happens to the event of the free. Method: pools on a machine whose
// calls a test interrupts and fails.
#include "pools/pools.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/pools/interrupted_driver.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

class LateFrees : public testing::Test {
 protected:
  LateFrees() {
    machine.begin_capture(stream, CaptureMode::relaxed);
    block = pool->allocate(1 << 20, stream.handle, 256);
    graph = machine.end_capture(stream);
  }
  void deallocate() { pools.deallocate(*pools.block_at(block), stream.handle); }
  bool is_back() {
    pool->trim(0);
    return pool->stats().reserved_bytes == 0;
  }

  MemoryRig rig;
  SimDriver& machine = rig.machine();
  InterruptedDriver driver{rig.driver()};
  Pools pools{driver, rig.memory(), [](StreamHandle) { return false; }};
  Pools::PoolPointer pool = pools.make(gpu(0), {});
  const BoundStream stream = rig.new_stream(0);
  Address block{};
  GraphHandle graph{};
};

TEST_F(LateFrees, ACaptureThatTookTheEventIsNotDisturbed) {
  driver.before_next(Call::record, [&] { machine.begin_capture(stream, CaptureMode::relaxed); });
  deallocate();
  machine.destroy_graph(graph);
  EXPECT_FALSE(is_back()) << "no event stands for the free";
  EXPECT_NO_THROW(machine.destroy_graph(machine.end_capture(stream)));
  const Pools::Past past = pools.past();
  pools.complete(past, rig.memory().contexts().await_work());
  EXPECT_TRUE(is_back());
}

TEST_F(LateFrees, AnEventThatACaptureTookAndGaveUpTellsNothing) {
  deallocate();
  machine.destroy_graph(std::exchange(graph, {}));
  driver.fail(Call::query_event, native_captured_event);
  EXPECT_FALSE(is_back());
  driver.fail_nothing();
  EXPECT_FALSE(is_back()) << "no event stands for the free any more";
  const Pools::Past past = pools.past();
  pools.complete(past, rig.memory().contexts().await_work());
  EXPECT_TRUE(is_back());
}

TEST_F(LateFrees, AnEventThatCouldNotBeRecordedIsMadeUpFor) {
  driver.fail(Call::record);
  EXPECT_NO_THROW(deallocate());
  driver.fail_nothing();
  machine.destroy_graph(graph);
  EXPECT_FALSE(is_back());
  pool->deallocate(*pools.block_at(pool->allocate(100, stream.handle, 256)), stream.handle);
  pools.destroy(pool);
  EXPECT_TRUE(comes_true([&] { return is_back(); }));
}

class LateFreesOfAContextThatIsGone : public LateFrees, public testing::WithParamInterface<int> {};

TEST_P(LateFreesOfAContextThatIsGone, AreOver) {
  deallocate();
  machine.destroy_graph(std::exchange(graph, {}));
  driver.fail(Call::query_event, GetParam());
  EXPECT_TRUE(is_back());
  driver.fail_nothing();
}
INSTANTIATE_TEST_SUITE_P(Errors, LateFreesOfAContextThatIsGone,
                         testing::Values(native_invalid_context, native_invalid_handle));

}  // namespace
}  // namespace vma
