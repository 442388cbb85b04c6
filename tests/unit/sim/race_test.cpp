// Goal: unordered accesses are reported; those ordered by an event, a wait, a word or the host are
// not. Method: two streams and one range, with and without each kind of order.
#include "unit/sim/sim_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

struct RaceTest : testing::Test {
  RaceTest()
      : rig("test-2",
            [] {
              SimOptions options;
              options.detect_races = true;
              return options;
            }()),
        memory(rig.allocate(gpu(0), rig.page())) {}

  void write(int device) {
    rig.launch(rig.stream(device),
               [this](DeviceView& view) { view.store(memory.words(), std::uint64_t{1}); });
  }
  std::size_t races() {
    rig.finish(rig.stream(0));
    rig.finish(rig.stream(1));
    return rig.driver().races().size();
  }

  SimRig rig;
  SimRig::Memory memory;
};

TEST_F(RaceTest, TwoWritesThatNothingOrdersAreOne) {
  write(0);
  write(1);
  ASSERT_EQ(races(), 1u);
  const Race race = rig.driver().races().front();
  EXPECT_EQ(race.begin, 0u);
  EXPECT_EQ(race.end, 8u);
  EXPECT_NE(race.earlier.find("write by stream"), std::string::npos) << race.earlier;
}

TEST_F(RaceTest, ACopyBesideAWriteIsOneAlsoThroughAnotherMapping) {
  const Address alias = rig.driver().reserve(rig.page(), 0);
  rig.driver().map(alias, rig.page(), memory.chunk);
  rig.grant_all(alias, rig.page());
  const auto target = rig.allocate(gpu(1), rig.page());
  write(0);
  rig.driver().copy(rig.stream(1), target.address, alias, rig.page());
  EXPECT_EQ(races(), 1u);
}

TEST_F(RaceTest, AKernelThatReadsLiveMemoryOnPurposeRacesByItsWritesOnly) {
  const auto copied = rig.allocate(gpu(1), rig.page());
  const auto copy = [&](DeviceView& view) {
    view.store(copied.words(), view.load(memory.words()));
  };
  write(0);
  rig.launch(rig.stream(1), copy, "vmart_live_copy");
  EXPECT_EQ(races(), 0u);
  rig.launch(rig.stream(0), [&](DeviceView& view) { view.load(copied.words()); });
  rig.launch(rig.stream(1), copy, "vmart_live_copy");
  EXPECT_EQ(races(), 1u) << "its target is its own";
  write(0);
  rig.launch(rig.stream(1), copy, "vmart_copy");
  EXPECT_EQ(races(), 2u) << "any other kernel's reads are seen";
}

TEST_F(RaceTest, AnEventOrders) {
  const EventHandle event = rig.new_event(0);
  write(0);
  rig.driver().record(event, rig.stream(0));
  rig.driver().stream_wait_event(rig.stream(1), event);
  write(1);
  EXPECT_EQ(races(), 0u);
}

TEST_F(RaceTest, AWaitOfTheHostOrders) {
  write(0);
  rig.finish(rig.stream(0));
  write(1);
  EXPECT_EQ(races(), 0u);
}

TEST_F(RaceTest, AWordOrders) {
  std::uint64_t* word = rig.new_word();
  write(0);
  rig.batch_write(rig.stream(0), word, 1);
  rig.batch_wait(rig.stream(1), word, 1);
  write(1);
  EXPECT_EQ(races(), 0u);
}

TEST_F(RaceTest, AHoldOrders) {
  const EventHandle at_rest = rig.new_event(0);
  write(0);
  rig.driver().record_context(rig.context(0), at_rest);
  rig.driver().hold_context(rig.context(1), at_rest);
  write(1);
  EXPECT_EQ(races(), 0u);
}

TEST_F(RaceTest, ReadsAndAtomicAddsAgreeAndOtherBytesAreApart) {
  for (int device = 0; device < 2; ++device) {
    rig.launch(rig.stream(device), [this, device](DeviceView& view) {
      view.load(memory.words());
      view.atomic_add(memory.words() + 1, 1);
      view.store(memory.words() + 2 + device, std::uint64_t{1});
    });
  }
  EXPECT_EQ(races(), 0u);
}

}  // namespace
}  // namespace vma
