// Goal: what calls of a program tell about its work is what they do. Method: arguments as the calls
// have them; launches of GPUs that nobody else notes.
#include "interpose/work/launches.hpp"
#include "interpose/work/memory_ranges.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace vma::interpose {
namespace {

constexpr CUdeviceptr target = 0x10000, source = 0x90000;

template <typename... Args>
std::vector<MemoryRange> ranges(Args... args) {
  std::vector<MemoryRange> found;
  ranges_among([&](const MemoryRange& range) { found.push_back(range); }, args...);
  return found;
}

void expect_range(const MemoryRange& range, CUdeviceptr begin, std::size_t bytes, bool writes,
                  float passes = 1) {
  EXPECT_EQ(range.begin, begin);
  EXPECT_EQ(range.bytes, bytes);
  EXPECT_EQ(range.writes, writes);
  EXPECT_FLOAT_EQ(range.passes, passes);
}

TEST(MemoryRanges, OfLinearCopiesAndFills) {
  const CUstream stream = nullptr;
  const auto copied = ranges(target, source, std::size_t{100}, stream);
  ASSERT_EQ(copied.size(), 2u);
  expect_range(copied[0], target, 100, true);
  expect_range(copied[1], source, 100, false);
  void* const host = nullptr;
  const auto read = ranges(host, source, std::size_t{100}, stream);
  ASSERT_EQ(read.size(), 1u);
  expect_range(read[0], source, 100, false);
  const CUarray array = nullptr;
  const auto to_array = ranges(array, std::size_t{4096}, source, std::size_t{100});
  ASSERT_EQ(to_array.size(), 1u);
  expect_range(to_array[0], source, 100, false);
  const auto words = ranges(target, 7u, std::size_t{100}, stream);
  ASSERT_EQ(words.size(), 1u);
  expect_range(words[0], target, 400, true);
  const auto peers = ranges(target, CUcontext{}, source, CUcontext{}, std::size_t{64}, stream);
  ASSERT_EQ(peers.size(), 2u);
  expect_range(peers[1], source, 64, false);
}

TEST(MemoryRanges, OfRowsReachFromTheFirstByteToTheLast) {
  const auto filled = ranges(target, std::size_t{64}, static_cast<unsigned short>(1),
                             std::size_t{16}, std::size_t{3}, CUstream{});
  ASSERT_EQ(filled.size(), 1u);
  expect_range(filled[0], target, 2 * 64 + 32, true, 96.0f / 160);

  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = target;
  box.dstPitch = 64;
  box.dstHeight = 10;
  box.dstXInBytes = 8;
  box.dstY = 2;
  box.dstZ = 1;
  box.WidthInBytes = 16;
  box.Height = 4;
  box.Depth = 2;
  const CUDA_MEMCPY3D* const given = &box;
  const auto copied = ranges(given, CUstream{});
  ASSERT_EQ(copied.size(), 1u);
  const std::size_t last_row = 10 + 3;
  expect_range(copied[0], target + (10 + 2) * 64 + 8, last_row * 64 + 16, true,
               128.0f / (last_row * 64 + 16));
  box.Depth = 0;
  EXPECT_EQ(ranges(given, CUstream{})[0].bytes, 0u);
}

TEST(MemoryRanges, OfBatchesAreThoseOfAll) {
  std::array<CUdeviceptr, 2> targets = {target, target + 512};
  std::array<CUdeviceptr, 2> sources = {source, source + 512};
  std::array<std::size_t, 2> sizes = {100, 200};
  const auto copied =
      ranges(targets.data(), sources.data(), sizes.data(), sizes.size(), CUstream{});
  ASSERT_EQ(copied.size(), 4u);
  expect_range(copied[2], source + 512, 200, false);
  expect_range(copied[3], target + 512, 200, true);
}

TEST(MemoryRanges, OfOtherCallsThereAreNone) {
  EXPECT_TRUE(ranges(CUstream{}, target, cuuint64_t{1}, 0u).empty()) << "a word, not a size";
  EXPECT_TRUE(ranges(CUstream{}).empty());
  EXPECT_TRUE(ranges(CUgraphExec{}, CUstream{}).empty());
  const CUDA_MEMCPY2D* const none = nullptr;
  EXPECT_TRUE(ranges(none, CUstream{}).empty());
}

TEST(BlindLaunches, MakeAGpuBlindWhileMostOfItsLatestAre) {
  BlindLaunches launches;
  constexpr int gpu = 7;
  EXPECT_FALSE(launches.is_blind(gpu)) << "it has no launches";
  launches.note(gpu, 2, 2);
  EXPECT_FALSE(launches.is_blind(gpu));
  launches.note(gpu, 0, 1);
  EXPECT_TRUE(launches.is_blind(gpu));
  EXPECT_FALSE(launches.any_besides(gpu));
  EXPECT_TRUE(launches.any_besides(0));
  for (int i = 0; i < 5000; ++i) launches.note(gpu, 0, 1);
  EXPECT_TRUE(launches.is_blind(gpu));
  for (int i = 0; i < 2000; ++i) launches.note(gpu, 1, 0);
  EXPECT_FALSE(launches.is_blind(gpu)) << "earlier launches fade";
  launches.note(-1, 0, 1);
  launches.note(1000, 0, 1);
  EXPECT_FALSE(launches.is_blind(-1));
  EXPECT_FALSE(launches.is_blind(1000));
}

TEST(TimeBudget, HasSomeUntilItIsSpent) {
  constexpr std::int64_t second = 1'000'000'000, age = 1'000'000'000'000;
  TimeBudget budget(second, age);
  EXPECT_TRUE(budget.has_some());
  budget.spend(second - 1);
  EXPECT_TRUE(budget.has_some());
  budget.spend(second);
  EXPECT_FALSE(budget.has_some());
  // All of the time that passes.
  TimeBudget eager(1, 1);
  eager.spend(1);
  const std::int64_t begin = now_ns();
  while (now_ns() - begin < 1000) {
  }
  EXPECT_TRUE(eager.has_some());
}

CUlaunchAttribute overlap_of(int allowed) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = allowed;
  return attribute;
}

CUlaunchConfig config_with(std::span<CUlaunchAttribute> attributes) {
  CUlaunchConfig config{};
  config.gridDimX = 7;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return config;
}

TEST(SerialLaunch, ChangesNothingButTheOverlap) {
  CUlaunchAttribute priority{};
  priority.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  priority.value.priority = -3;
  std::array attributes = {priority, overlap_of(1)};
  const CUlaunchConfig config = config_with(attributes);
  EXPECT_TRUE(may_overlap(config));
  const SerialLaunch serial(config);
  EXPECT_FALSE(may_overlap(*serial.config()));
  EXPECT_EQ(serial.config()->gridDimX, 7u);
  ASSERT_EQ(serial.config()->numAttrs, 2u);
  EXPECT_EQ(serial.config()->attrs[0].value.priority, -3);
  EXPECT_TRUE(may_overlap(config)) << "the program's own attributes were changed";
}

TEST(SerialLaunch, IsForLaunchesThatMayOverlap) {
  std::array denied = {overlap_of(0)};
  EXPECT_FALSE(may_overlap(config_with(denied)));
  EXPECT_FALSE(may_overlap(config_with({})));
}

TEST(SerialLaunch, LeavesMoreAttributesThanThereAreKindsAsTheyAre) {
  std::vector<CUlaunchAttribute> attributes(33, overlap_of(1));
  const CUlaunchConfig config = config_with(attributes);
  const SerialLaunch serial(config);
  EXPECT_EQ(serial.config()->attrs, attributes.data());
  EXPECT_EQ(serial.config()->numAttrs, 33u);
}

int names_asked = 0;

/// The handle is the address of the name.
const char* named_by_handle(CUfunction function) noexcept {
  ++names_asked;
  return reinterpret_cast<const char*>(function);
}

TEST(EarlyReaders, AreKnownByTheirNamesUntilTheHandlesAreForgotten) {
  alignas(2) static char name[] =
      "_ZN3cub17CUB_300001_SM_9006detail10merge_sort26DeviceMergeSortMergeKernelIN4cuda3std";
  alignas(2) static char harmless[] =
      "_ZN3cub17CUB_300001_SM_9006detail10merge_sort30DeviceMergeSortBlockSortKernelIN4cuda3std";
  const auto merge = reinterpret_cast<CUfunction>(name);
  const auto block_sort = reinterpret_cast<CUfunction>(harmless);
  EarlyReaders readers(named_by_handle);
  EXPECT_TRUE(readers.has(merge));
  EXPECT_FALSE(readers.has(block_sort));
  const int asked = names_asked;
  EXPECT_TRUE(readers.has(merge));
  EXPECT_EQ(names_asked, asked) << "the name was asked for at each launch";
  readers.forget();
  name[0] = '\0';  // Another function with the same handle.
  EXPECT_FALSE(readers.has(merge));
}

TEST(EarlyReaders, AreNotTakenForOthersAtTheirPlace) {
  constexpr std::size_t far_more_than_places = 4096;
  alignas(2) static char reads_early[] = "DeviceMergeSortMergeKernel";
  static const char* const early_one = reads_early;
  EarlyReaders readers([](CUfunction function) noexcept -> const char* {
    const auto* const name = reinterpret_cast<const char*>(function);
    return name == early_one ? name : "harmless";
  });
  EXPECT_TRUE(readers.has(reinterpret_cast<CUfunction>(reads_early)));
  for (std::size_t i = 1; i < far_more_than_places; ++i) {
    EXPECT_FALSE(readers.has(reinterpret_cast<CUfunction>(2 * i))) << i;
  }
  EXPECT_TRUE(readers.has(reinterpret_cast<CUfunction>(reads_early)));
}

TEST(EarlyReaders, AreNotThoseWithoutAName) {
  EarlyReaders readers([](CUfunction) noexcept -> const char* { return nullptr; });
  int function = 0;
  EXPECT_FALSE(readers.has(reinterpret_cast<CUfunction>(&function)));
}

}  // namespace
}  // namespace vma::interpose
