// Goal: uses and hints reach the log of their runtime unchanged; bad hints are refused, and all of
// them are ignored after shutdown.
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/scoped_variable.hpp"

#include <vma/vma.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vma {
namespace {

using std::chrono::nanoseconds;

class Uses : public testing::Test {
 protected:
  Runtime& runtime() { return rig_.runtime(); }
  UseLog& log() { return *parts_of(runtime()).uses; }
  std::vector<LoggedUse> uses() {
    std::vector<LoggedUse> uses;
    log().collect(uses, 1000);
    return uses;
  }
  std::vector<AdvisedRange> hints() {
    std::vector<AdvisedRange> hints;
    log().collect_hints(hints);
    return hints;
  }
  void expect_refused(const Hint& hint) {
    EXPECT_EQ(kind_of_error([&] { runtime().advise(words_, 8, hint); }),
              ErrorKind::invalid_argument);
  }

  RuntimeRig rig_;
  std::uint64_t* words_ = rig_.alloc(4 * chunk_bytes, gpu(0));
};

TEST_F(Uses, ArriveAsTheyWereRecorded) {
  runtime().record_use(words_ + 1, 100, gpu(1), UseKind::write);
  const std::vector<Use> batch{{words_, 8, gpu(0), UseKind::read_write, 2.5f},
                               {nullptr, 0, host(0)}};
  runtime().record_uses(batch);
  const std::vector<LoggedUse> recorded = uses();
  ASSERT_EQ(recorded.size(), 3u);
  EXPECT_EQ(recorded[0].address, address_of(words_ + 1));
  EXPECT_EQ(recorded[0].bytes, 100u);
  EXPECT_EQ(recorded[0].device, DeviceId{1});
  EXPECT_EQ(recorded[0].kind, UseKind::write);
  EXPECT_EQ(recorded[1].kind, UseKind::read_write);
  EXPECT_EQ(recorded[1].passes, 2.5f);
  EXPECT_EQ(recorded[2].device, DeviceId{-1});
}

TEST_F(Uses, HaveTheTimeOfTheMachineWhereItIsWanted) {
  log().timestamps(true);
  rig_.fill_by(0, words_, 8, 1);  // Takes time on the simulated machine.
  const nanoseconds before = rig_.machine().clock().now();
  runtime().record_use(words_, 8, gpu(0));
  const nanoseconds after = rig_.machine().clock().now();  // Other threads may let time pass.
  ASSERT_GT(before.count(), 0);
  const nanoseconds at = uses().at(0).at;
  EXPECT_GE(at, before);
  EXPECT_LE(at, after);
}

TEST_F(Uses, AHintArrivesWithItsTimeAndWakes) {
  int woken = 0;
  log().wake_with([&] { ++woken; });
  Hint hint;
  hint.device = gpu(1);
  hint.next_use = nanoseconds(0);
  hint.until = nanoseconds(0);
  hint.passes = 0;
  runtime().advise(words_ + 1, 4 * chunk_bytes - 8, hint);
  EXPECT_EQ(woken, 1);
  const std::vector<AdvisedRange> given = hints();
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].address, address_of(words_ + 1));
  EXPECT_EQ(given[0].bytes, 4 * chunk_bytes - 8);
  EXPECT_EQ(given[0].hint.device, gpu(1));
  EXPECT_EQ(given[0].at, rig_.machine().clock().now());
}

TEST_F(Uses, BadHintsAreRefused) {
  const auto with = [](auto change) {
    Hint hint;
    change(hint);
    return hint;
  };
  expect_refused(with([](Hint& hint) { hint.device = gpu(2); }));
  expect_refused(with([](Hint& hint) { hint.device = gpu(-1); }));
  expect_refused(with([](Hint& hint) { hint.device = host(0); }));
  expect_refused(with([](Hint& hint) { hint.passes = -0.5; }));
  expect_refused(with([](Hint& hint) { hint.passes = std::nan(""); }));
  expect_refused(with([](Hint& hint) { hint.passes = std::numeric_limits<double>::infinity(); }));
  expect_refused(with([](Hint& hint) { hint.next_use = nanoseconds(-1); }));
  expect_refused(with([](Hint& hint) { hint.until = nanoseconds(-1); }));
  const auto kind = [&](const void* address, std::size_t bytes) {
    return kind_of_error([&] { runtime().advise(address, bytes, Hint{}); });
  };
  EXPECT_EQ(kind(words_, 0), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(words_, 4 * chunk_bytes + 1), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(words_ + 1, 4 * chunk_bytes), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(words_ + 1, SIZE_MAX), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(nullptr, 8), ErrorKind::unknown_pointer);
  EXPECT_EQ(kind(&kind, 8), ErrorKind::unknown_pointer);
  runtime().free(words_);
  EXPECT_EQ(kind(words_, 8), ErrorKind::unknown_pointer);
  EXPECT_TRUE(hints().empty());
}

TEST_F(Uses, OfALaunchAreRecordedOnceItIsEnqueued) {
  const std::vector<Use> uses_of_launch{{words_, 64, gpu(1), UseKind::write}};
  const auto launch = [&](Stream stream) {
    runtime().launch_using(stream, fill_kernel(), {}, {},
                           KernelArguments::of(words_, std::uint64_t{8}, std::uint64_t{5}),
                           uses_of_launch);
  };
  launch(rig_.stream(1));
  runtime().synchronize(rig_.stream(1));
  EXPECT_EQ(rig_.wrong(words_, 8, 5), 0u) << "it ran";
  const std::vector<LoggedUse> recorded = uses();
  ASSERT_EQ(recorded.size(), 1u);
  EXPECT_EQ(recorded[0].bytes, 64u);
  EXPECT_EQ(recorded[0].kind, UseKind::write);
  const Stream gone = runtime().make_stream(gpu(0));
  runtime().destroy_stream(gone);
  EXPECT_THROW(launch(gone), Error);
  EXPECT_TRUE(uses().empty()) << "what does not run uses nothing";
}

TEST_F(Uses, OfALaunchAreFoundInItsArguments) {
  std::uint64_t* other = rig_.alloc(chunk_bytes, gpu(1));
  std::uint64_t* unused = rig_.alloc(chunk_bytes, gpu(1));
  const Kernel kernel{"", "body", [](DeviceView&, const KernelArguments&, LaunchShape) {}};
  runtime().launch_recorded(
      rig_.stream(1), kernel, {}, {},
      KernelArguments::of(7, words_ + 100, 0.5, words_, other, words_, &kernel));
  const std::vector<LoggedUse> recorded = uses();
  ASSERT_EQ(recorded.size(), 3u) << "each address once";
  EXPECT_EQ(recorded[0].address, address_of(words_ + 100));
  EXPECT_EQ(recorded[0].bytes, 0u) << "unknown";
  EXPECT_EQ(recorded[0].device, DeviceId{1});
  EXPECT_EQ(recorded[0].kind, UseKind::unknown);
  EXPECT_EQ(recorded[1].address, address_of(words_));
  EXPECT_EQ(recorded[2].address, address_of(other));
  runtime().synchronize(rig_.stream(1));
  runtime().free(other);
  runtime().launch_recorded(rig_.stream(0), kernel, {}, {}, KernelArguments::of(other));
  EXPECT_TRUE(uses().empty()) << "freed";
  runtime().free(unused);
}

TEST_F(Uses, OfNoRuntimeOpenNone) {
  // Opening a runtime here would throw out of a noexcept function.
  {
    const ScopedVariable driver("VMART_DRIVER", "none such");
    const Use use{words_, 8, gpu(0)};
    record_use(words_, 8, gpu(0));
    record_uses({&use, 1});
  }
  EXPECT_TRUE(uses().empty()) << "nor take any other for it";
}

TEST_F(Uses, AreIgnoredAfterShutdown) {
  runtime().record_use(words_, 8, gpu(0));
  runtime().shutdown();
  log().timestamps(true);
  runtime().record_use(words_, 8, gpu(0));
  EXPECT_EQ(log().counters().recorded, 1u);
  EXPECT_EQ(log().counters().lost, 0u);
  EXPECT_EQ(kind_of_error([&] { runtime().advise(words_, 8, Hint{}); }), ErrorKind::driver_gone);
}

TEST_F(Uses, OfOneRuntimeAreNotTheOthers) {
  RuntimeRig other;
  for (int i = 0; i < 3; ++i) {
    runtime().record_use(words_, 1, gpu(0));
    other.runtime().record_use(words_, 2, gpu(0));
  }
  other.runtime().record_use(words_, 2, gpu(0));
  EXPECT_EQ(log().counters().recorded, 3u);
  EXPECT_EQ(parts_of(other.runtime()).uses->counters().recorded, 4u);
  for (const LoggedUse& use : uses()) EXPECT_EQ(use.bytes, 1u);
}

}  // namespace
}  // namespace vma
