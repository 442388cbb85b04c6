// Goal: uses and hints reported through C arrive unchanged, and invalid ones do no harm.
#include "abi/run_table.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "telemetry/use_summary.hpp"
#include "unit/abi/abi_rig.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace vma {
namespace {

class UseCalls : public AbiTest {
 protected:
  UseCalls() { static_cast<void>(uses()); }
  static std::vector<LoggedUse> uses() {
    std::vector<LoggedUse> uses;
    parts_of(runtime()).uses->collect(uses, 1000);
    return uses;
  }
  static std::vector<AdvisedRange> hints() {
    std::vector<AdvisedRange> hints;
    parts_of(runtime()).uses->collect_hints(hints);
    return hints;
  }
  static vmart_hint zero_hint() {
    vmart_hint hint{};
    hint.size_bytes = sizeof hint;
    return hint;
  }
};

TEST_F(UseCalls, AUseArrivesAsItWasRecorded) {
  std::uint64_t* words = filled(1, 0);
  vmart_record_use(words + 1, 100, 1, VMART_USE_WRITE);
  vmart_record_use(words, 8, 0, VMART_USE_READ);
  vmart_record_use(words, 8, 0, VMART_USE_READ_WRITE);
  const std::vector<LoggedUse> recorded = uses();
  ASSERT_EQ(recorded.size(), 3u);
  EXPECT_EQ(recorded[0].address, address_of(words + 1));
  EXPECT_EQ(recorded[0].bytes, 100u);
  EXPECT_EQ(recorded[0].device, DeviceId{1});
  EXPECT_EQ(recorded[0].kind, UseKind::write);
  EXPECT_EQ(recorded[0].passes, 1.0f);
  EXPECT_EQ(recorded[1].kind, UseKind::read);
  EXPECT_EQ(recorded[2].kind, UseKind::read_write);
  free(words);
}

TEST_F(UseCalls, ALaunchIsRecordedByWhatItsParametersPointInto) {
  std::uint64_t* words = filled(1, 0);
  Driver& driver = *parts_of(runtime()).driver;
  const ContextHandle context = driver.retain_primary(DeviceId{0});
  const KernelHandle kernel = driver.load_kernel(context, fill_kernel());
  const auto* function = reinterpret_cast<const void*>(static_cast<std::uint64_t>(kernel));
  const std::uint64_t count = 8, seed = 1;
  const void* parameters[] = {&words, &count, &seed};
  for (int launch = 0; launch < 2; ++launch) {
    EXPECT_EQ(vmart_record_launch(function, parameters, 1), VMART_OK);
  }
  const std::vector<LoggedUse> recorded = uses();
  ASSERT_EQ(recorded.size(), 2u);
  EXPECT_EQ(recorded[1].address, address_of(words));
  EXPECT_EQ(recorded[1].device, DeviceId{1});
  EXPECT_EQ(recorded[1].bytes, 0u) << "unknown";
  EXPECT_EQ(recorded[1].kind, UseKind::unknown);
  const void* block[] = {words, nullptr, nullptr};
  EXPECT_EQ(vmart_record_launch_block(function, block, sizeof(block), 1), VMART_OK);
  EXPECT_EQ(uses().size(), 1u);
  EXPECT_EQ(vmart_record_launch_block(function, block, sizeof(block) - 1, 1),
            VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_record_launch_block(function, nullptr, sizeof(block), 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_record_launch_block(nullptr, block, sizeof(block), 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_forget_kernels(), VMART_OK);
  EXPECT_EQ(vmart_record_launch(nullptr, parameters, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_record_launch(function, nullptr, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_record_launch(function, parameters, 2), VMART_INVALID_ARGUMENT);
  driver.unload_kernel(kernel);
  EXPECT_EQ(vmart_forget_kernels(), VMART_OK);  // Required before kernels are unloaded.
  EXPECT_EQ(vmart_record_launch(function, parameters, 1), VMART_INVALID_ARGUMENT);
  EXPECT_TRUE(uses().empty());
  driver.release_primary(DeviceId{0});
  free(words);
}

TEST_F(UseCalls, WhatALaunchUsesIsFoundOnceAndRecordedLater) {
  std::uint64_t* words = filled(1, 0);
  std::uint64_t* others = filled(1, 0);
  Driver& driver = *parts_of(runtime()).driver;
  const ContextHandle context = driver.retain_primary(DeviceId{0});
  const KernelHandle kernel = driver.load_kernel(context, fill_kernel());
  const auto* function = reinterpret_cast<const void*>(static_cast<std::uint64_t>(kernel));
  const std::uint64_t seed = 1;
  const void* parameters[] = {&words, &others, &seed};
  std::array<vmart_use, 3> found{};
  std::size_t count = 0;
  ASSERT_EQ(vmart_launch_uses(function, parameters, 1, found.data(), found.size(), &count),
            VMART_OK);
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(found[0].address, words);
  EXPECT_EQ(found[1].address, others);
  EXPECT_EQ(found[1].gpu, 1);
  EXPECT_EQ(found[1].size_bytes, 0u);
  EXPECT_EQ(found[1].kind, VMART_USE_UNKNOWN);
  EXPECT_EQ(found[1].passes, 1.0f);
  EXPECT_TRUE(uses().empty());
  found[1].address = nullptr;
  const void* block[] = {words, others, nullptr};
  ASSERT_EQ(vmart_launch_block_uses(function, block, sizeof(block), 0, found.data(), 1, &count),
            VMART_OK);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(found[0].gpu, 0);
  EXPECT_EQ(found[1].address, nullptr) << "there was room for one";

  std::array<vmart_use, 100> many;
  for (std::size_t i = 0; i < many.size(); ++i) {
    many[i] = {words, 8 * i, 1, VMART_USE_READ, static_cast<float>(i)};
  }
  vmart_record_uses(many.data(), many.size());
  const std::vector<LoggedUse> recorded = uses();
  ASSERT_EQ(recorded.size(), many.size());
  EXPECT_EQ(recorded[70].bytes, 8u * 70);
  EXPECT_EQ(recorded[70].passes, 70.0f);
  EXPECT_EQ(recorded[70].device, DeviceId{1});

  EXPECT_EQ(vmart_launch_uses(nullptr, parameters, 1, nullptr, 0, &count), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_launch_uses(function, parameters, 1, nullptr, 1, &count), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_launch_uses(function, parameters, 1, nullptr, 0, nullptr),
            VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_launch_block_uses(function, block, 8, 0, nullptr, 0, &count),
            VMART_INVALID_ARGUMENT);
  driver.unload_kernel(kernel);
  EXPECT_EQ(vmart_forget_kernels(), VMART_OK);
  driver.release_primary(DeviceId{0});
  free(words);
  free(others);
}

TEST_F(UseCalls, NonsenseIsCountedAndIgnored) {
  std::uint64_t* words = filled(1, 0);
  vmart_record_use(words, 8, -1, VMART_USE_READ);
  vmart_record_use(words, 8, 2, VMART_USE_READ);
  vmart_record_use(words, 8, 0, VMART_USE_UNKNOWN + 1);
  vmart_record_use(words, 8, 0, 256);  // Truncated to eight bits, this would be a read.
  vmart_record_use(words, 8, 0, -1);
  vmart_record_use(words, SIZE_MAX, 0, VMART_USE_READ);
  vmart_record_use(nullptr, 8, 0, VMART_USE_READ);
  const Machinery& machinery = *parts_of(runtime()).machinery;
  UseSummary summary(machinery.memory.registry(), machinery.topology);
  const std::vector<LoggedUse> recorded = uses();
  summary.add(recorded);
  EXPECT_EQ(summary.ignored().bad_uses, 6u);
  EXPECT_EQ(summary.ignored().unknown_uses, 1u);
  EXPECT_TRUE(summary.rows().empty());
  free(words);
}

TEST_F(UseCalls, AHintArrivesAsItWasGiven) {
  std::uint64_t* words = filled(2, 0);
  vmart_hint hint = zero_hint();
  ASSERT_EQ(vmart_advise(words, 8, &hint), VMART_OK) << vmart_last_error();
  hint.gpu = 1;
  hint.read_mostly = 1;
  hint.next_use_ns = -1;
  hint.until_ns = 7000;
  hint.passes = 2.5;
  ASSERT_EQ(vmart_advise(words + 1, 2 * chunk_bytes - 8, &hint), VMART_OK) << vmart_last_error();
  const std::vector<AdvisedRange> given = hints();
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(given[0].hint.device, gpu(0));
  EXPECT_EQ(given[0].hint.next_use, std::chrono::nanoseconds(0));
  EXPECT_EQ(given[0].hint.until, std::nullopt);
  EXPECT_EQ(given[0].hint.passes, 1);
  EXPECT_FALSE(given[0].hint.read_mostly);
  EXPECT_EQ(given[1].address, address_of(words + 1));
  EXPECT_EQ(given[1].bytes, 2 * chunk_bytes - 8);
  EXPECT_EQ(given[1].hint.device, gpu(1));
  EXPECT_EQ(given[1].hint.next_use, std::nullopt);
  EXPECT_EQ(given[1].hint.until, std::chrono::nanoseconds(7000));
  EXPECT_EQ(given[1].hint.passes, 2.5);
  EXPECT_TRUE(given[1].hint.read_mostly);
  free(words);
}

TEST_F(UseCalls, HintsThatMeanNothingAreRefused) {
  std::uint64_t* words = filled(1, 0);
  const auto refused = [&](auto change) {
    vmart_hint hint = zero_hint();
    change(hint);
    EXPECT_EQ(vmart_advise(words, 8, &hint), VMART_INVALID_ARGUMENT);
  };
  refused([](vmart_hint& hint) { --hint.size_bytes; });
  refused([](vmart_hint& hint) { hint.size_bytes = SIZE_MAX; });
  refused([](vmart_hint& hint) { hint.gpu = 2; });
  refused([](vmart_hint& hint) { hint.gpu = -1; });
  refused([](vmart_hint& hint) { hint.until_ns = -1; });
  refused([](vmart_hint& hint) { hint.passes = -1; });
  refused([](vmart_hint& hint) { hint.passes = std::nan(""); });
  const vmart_hint hint = zero_hint();
  EXPECT_EQ(vmart_advise(words, 8, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_advise(nullptr, 8, &hint), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_advise(words, chunk_bytes + 1, &hint), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_advise(&hint, 8, &hint), VMART_UNKNOWN_POINTER);
  struct {
    vmart_hint known;
    std::uint64_t later;
  } grown{zero_hint(), 0};
  grown.known.size_bytes = sizeof grown;
  EXPECT_EQ(vmart_advise(words, 8, &grown.known), VMART_OK) << vmart_last_error();
  grown.later = 1;
  EXPECT_EQ(vmart_advise(words, 8, &grown.known), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(hints().size(), 1u);
  free(words);
}

}  // namespace
}  // namespace vma
