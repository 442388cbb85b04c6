// Goal: the simulator's chains keep rules beyond the contract: launches of one chain run one after
// another on any streams, a chain outlives the handles of its kernels, and stepped chains replay.
// Method: chains {wait for go; kernel; write done} on "test-2".
#include "driver/native_codes.hpp"
#include "support/stepped_executor.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vma {
namespace {

struct SimChain : testing::Test {
  std::vector<ChainStep> steps(std::uint64_t epoch) {
    std::vector<ChainStep> steps(3);
    steps[0].words = {{WordOperation::Kind::wait_until_at_least, address_of(go), epoch}};
    steps[1].kernel = kernel;
    steps[2].words = {{WordOperation::Kind::write, address_of(done), epoch}};
    return steps;
  }

  SimRig rig;
  SimDriver& driver = rig.driver();
  std::uint64_t* go = rig.new_word();
  std::uint64_t* done = rig.new_word();
  int runs = 0;
  const KernelHandle kernel = driver.load_kernel(
      rig.context(0),
      {"", "test", [this](DeviceView&, const KernelArguments&, LaunchShape) { ++runs; }});
};

TEST_F(SimChain, LaunchesOfOneFollowEachOtherOnAnyStreams) {
  const ExecGraphHandle chain = driver.make_chain(rig.context(0), steps(1));
  const BoundStream other = rig.new_stream(0);
  driver.launch_graph(rig.stream(0), chain);
  driver.update_chain(chain, steps(0));
  driver.launch_graph(other, chain);
  EXPECT_FALSE(driver.query_stream(other)) << "it waits for no word of its own";
  store(go, 1);
  rig.finish(other);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(*done, 0u) << "the second's done word came last";
  driver.destroy_exec_graph(chain);
}

TEST_F(SimChain, WhatIsUnderWaySurvivesItsHandles) {
  const ExecGraphHandle chain = driver.make_chain(rig.context(0), steps(1));
  driver.launch_graph(rig.stream(0), chain);
  driver.destroy_exec_graph(chain);
  driver.unload_kernel(kernel);
  EXPECT_EQ(native_of([&] { driver.launch_graph(rig.stream(0), chain); }), native_invalid_value);
  EXPECT_EQ(native_of([&] { driver.update_chain(chain, steps(1)); }), native_invalid_value);
  store(go, 1);
  rig.finish(rig.stream(0));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(*done, 1u);
}

TEST_F(SimChain, KernelsAndWordsAreCheckedWhenItIsMade) {
  std::vector<ChainStep> bad = steps(1);
  EXPECT_EQ(native_of([&] { driver.make_chain(rig.context(1), bad); }), native_invalid_handle);
  bad[0].words[0].word = address_of(go) + 4;
  EXPECT_EQ(native_of([&] { driver.make_chain(rig.context(0), bad); }), native_invalid_value);
  bad[0].words[0].word = driver.reserve(rig.page(), 0);
  EXPECT_EQ(native_of([&] { driver.make_chain(rig.context(0), bad); }), native_invalid_value);
  bad = steps(1);
  bad[1].shape.block.x = 2000;
  EXPECT_EQ(native_of([&] { driver.make_chain(rig.context(0), bad); }), native_invalid_value);
  const ExecGraphHandle chain = driver.make_chain(rig.context(0), steps(1));
  EXPECT_EQ(native_of([&] { driver.update_chain(chain, bad); }), native_invalid_value);
}

TEST_F(SimChain, OneThatIsNotDestroyedLeaksAndACapturedGraphIsNone) {
  const ExecGraphHandle chain = driver.make_chain(rig.context(0), steps(1));
  const auto leaked = [&] {
    const std::vector<std::string> leaks = driver.leaks();
    return std::count_if(leaks.begin(), leaks.end(),
                         [](const auto& it) { return it.starts_with("executable graph"); });
  };
  EXPECT_EQ(leaked(), 1);
  driver.destroy_exec_graph(chain);
  EXPECT_EQ(leaked(), 0);
  driver.begin_capture(rig.stream(0), CaptureMode::relaxed);
  rig.batch_write(rig.stream(0), done, 1);
  const ExecGraphHandle captured = driver.instantiate(driver.end_capture(rig.stream(0)));
  EXPECT_EQ(native_of([&] { driver.update_chain(captured, steps(1)); }), native_invalid_value);
}

TEST(SteppedChain, GoesRoundUnderManySeeds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SteppedExecutor executor({seed, 4});
    SimOptions options;
    options.stepped = &executor;
    executor.run([&] {
      SimRig rig("test-2", options);
      Driver& driver = rig.driver();
      std::uint64_t* go = rig.new_word();
      std::uint64_t* done = rig.new_word();
      std::uint64_t ran = 0;
      std::vector<ChainStep> steps(3);
      steps[1].kernel = driver.load_kernel(
          rig.context(0),
          {"", "test", [&](DeviceView&, const KernelArguments& arguments, LaunchShape) {
             ran = arguments.at<std::uint64_t>(0);
           }});
      ExecGraphHandle chain{};
      for (std::uint64_t epoch = 1; epoch <= 10; ++epoch) {
        steps[0].words = {{WordOperation::Kind::wait_until_at_least, address_of(go), epoch}};
        steps[1].arguments = KernelArguments::of(epoch);
        steps[2].words = {{WordOperation::Kind::write, address_of(done), epoch}};
        if (is_none(chain)) {
          chain = driver.make_chain(rig.context(0), steps);
        } else {
          driver.update_chain(chain, steps);
        }
        driver.launch_graph(rig.stream(0), chain);
        EXPECT_NE(ran, epoch);
        *go = epoch;
        for (Poll poll; *done != epoch;) poll.pause();
        EXPECT_EQ(ran, epoch);
      }
      rig.finish(rig.stream(0));
      driver.destroy_exec_graph(chain);
    });
  }
}

}  // namespace
}  // namespace vma
