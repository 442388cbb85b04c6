// Goal: every size is cut into slots that cover it, of few different sizes and with little waste.
#include "base/units.hpp"
#include "unit/memory/memory_rig.hpp"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <set>

namespace vma {
namespace {

constexpr std::uint64_t large_granule = 2 * MiB;

Geometry plan(std::uint64_t size_bytes, std::uint64_t chunk_bytes = 0, Place home = gpu(0)) {
  return plan_geometry(size_bytes, chunk_bytes, home, large_granule);
}

void expect_sound(const Geometry& geometry, std::uint64_t size_bytes) {
  ASSERT_GE(geometry.slots, 1u);
  EXPECT_GE(geometry.size_bytes(), size_bytes);
  EXPECT_EQ(geometry.chunk_bytes % large_granule, 0u);
  EXPECT_EQ(geometry.tail_bytes % large_granule, 0u);
  EXPECT_GT(geometry.tail_bytes, 0u);
  EXPECT_LE(geometry.tail_bytes, geometry.chunk_bytes);
  EXPECT_LE(geometry.chunk_bytes, 256 * MiB);
  EXPECT_LT((geometry.slots - 1) * geometry.chunk_bytes, size_bytes) << "a slot that nobody needs";
  const std::uint64_t needed = round_up(size_bytes, large_granule);
  EXPECT_LE(geometry.size_bytes(), needed + needed / 2) << "more than half is waste";
}

TEST(Geometry, CoversEverySize) {
  for (std::uint64_t granules = 1; granules <= 1200; ++granules) {
    for (const Place home : {gpu(0), host(0)}) {
      for (const std::uint64_t size :
           {granules * large_granule - large_granule + 1, granules * large_granule}) {
        SCOPED_TRACE(fmt::format("{} bytes at {}", size, to_string(home)));
        expect_sound(plan(size, 0, home), size);
      }
    }
  }
  for (const std::uint64_t size : {GiB * 8 + 1, 141 * GiB, std::uint64_t{1} << 46}) {
    expect_sound(plan(size), size);
  }
}

TEST(Geometry, CoversEverySizeInChunksThatAreAskedFor) {
  for (const std::uint64_t chunk_granules : {1, 2, 3, 7, 16, 100, 128}) {
    for (std::uint64_t granules = 1; granules <= 300; ++granules) {
      SCOPED_TRACE(fmt::format("{} granules in chunks of {}", granules, chunk_granules));
      const Geometry geometry = plan(granules * large_granule, chunk_granules * large_granule);
      EXPECT_EQ(geometry.chunk_bytes, chunk_granules * large_granule);
      EXPECT_EQ(geometry.slots, (granules + chunk_granules - 1) / chunk_granules);
      EXPECT_LE(geometry.tail_bytes, geometry.chunk_bytes);
      EXPECT_GE(geometry.size_bytes(), granules * large_granule);
    }
  }
}

TEST(Geometry, UsesFewSizesSoThatTheCacheHits) {
  std::set<std::uint64_t> sizes;
  for (std::uint64_t granules = 1; granules <= 4000; ++granules) {
    const Geometry geometry = plan(granules * large_granule);
    sizes.insert(geometry.chunk_bytes);
    sizes.insert(geometry.tail_bytes);
  }
  EXPECT_LE(sizes.size(), 16u);
}

TEST(Geometry, MakesAByteOneGranule) {
  EXPECT_EQ(plan(1), (Geometry{large_granule, large_granule, 1}));
  EXPECT_EQ(plan(large_granule), (Geometry{large_granule, large_granule, 1}));
  EXPECT_EQ(plan(large_granule + 1), (Geometry{2 * large_granule, 2 * large_granule, 1}));
}

// The examples in the comment of `AllocOptions::chunk_bytes`.
TEST(Geometry, ChoosesWhatItIsDocumentedToChoose) {
  EXPECT_EQ(plan(32 * MiB).slots, 1u);
  EXPECT_EQ(plan(32 * MiB, 0, host(0)).slots, 1u);
  EXPECT_EQ(plan(33 * MiB, 0, host(0)).chunk_bytes, 32 * MiB);
  EXPECT_EQ(plan(8 * GiB, 0, host(0)).chunk_bytes, 32 * MiB);
  EXPECT_EQ(plan(256 * MiB).slots, 1u);
  EXPECT_EQ(plan(256 * MiB + 1).chunk_bytes, 64 * MiB);
  EXPECT_EQ(plan(512 * MiB - 2 * MiB).chunk_bytes, 64 * MiB);
  EXPECT_EQ(plan(512 * MiB).chunk_bytes, 128 * MiB);
  EXPECT_EQ(plan(GiB - 2 * MiB).chunk_bytes, 128 * MiB);
  EXPECT_EQ(plan(GiB).chunk_bytes, 256 * MiB);
}

TEST(Geometry, ChoosesChunksForTheCpuByTheSize) {
  AllocOptions options;
  options.cpu_access = CpuAccess::fault;
  const auto chunk_of = [&](std::uint64_t size_bytes) {
    const Geometry geometry = plan_geometry(size_bytes, options, gpu(0), large_granule);
    expect_sound(geometry, size_bytes);
    EXPECT_EQ(geometry, plan_geometry(size_bytes, options, host(0), large_granule))
        << "wherever it lies first";
    return geometry.chunk_bytes;
  };
  EXPECT_EQ(chunk_of(4 * MiB), 4 * MiB);
  EXPECT_EQ(chunk_of(32 * MiB - 1), 4 * MiB);
  EXPECT_EQ(chunk_of(32 * MiB), 8 * MiB);
  EXPECT_EQ(chunk_of(64 * MiB - 1), 8 * MiB);
  EXPECT_EQ(chunk_of(64 * MiB), 16 * MiB);
  EXPECT_EQ(chunk_of(100 * GiB), 16 * MiB);
  options.chunk_bytes = 2 * MiB;
  EXPECT_EQ(chunk_of(64 * MiB), 2 * MiB);
}

TEST(Geometry, GrowsChunksWithTheSizeAndKeepsHostChunksSmall) {
  EXPECT_EQ(plan(256 * MiB).slots, 1u);
  EXPECT_EQ(plan(GiB).chunk_bytes, 256 * MiB);
  EXPECT_EQ(plan(8 * GiB).chunk_bytes, 256 * MiB);
  EXPECT_EQ(plan(512 * MiB).chunk_bytes, 128 * MiB) << "four chunks, so that copies overlap";
  EXPECT_EQ(plan(GiB, 0, host(0)).chunk_bytes, 32 * MiB);
  EXPECT_EQ(largest_chunk_bytes(gpu(0), large_granule), 256 * MiB);
  EXPECT_EQ(largest_chunk_bytes(host(0), large_granule), 32 * MiB);
}

// Where no other GPU needs access, large handles cost no more than small ones.
TEST(Geometry, MakesTheLargestChunksOfOneGpuAsLargeAsTheMemory) {
  const auto largest = [](std::uint64_t size_bytes, std::size_t gpus, Place at = gpu(0)) {
    return plan_geometry(size_bytes, largest_chunks, at, large_granule, gpus);
  };
  EXPECT_EQ(largest(8 * GiB, 1), (Geometry{8 * GiB, 8 * GiB, 1}));
  EXPECT_EQ(largest(8 * GiB + 1, 1), (Geometry{8 * GiB, large_granule, 2}));
  EXPECT_EQ(largest(5 * GiB, 1).tail_bytes, 5 * GiB) << "without padding";
  EXPECT_EQ(largest(20 * MiB, 1).tail_bytes, 24 * MiB) << "as small chunks have it, for the cache";
  EXPECT_EQ(largest(8 * GiB, 2), (Geometry{256 * MiB, 256 * MiB, 32})) << "a grant to the other";
  EXPECT_EQ(largest(8 * GiB, 1, host(0)).chunk_bytes, 256 * MiB) << "all map that page by page";
  AllocOptions options;
  options.chunk_bytes = largest_chunks;
  EXPECT_EQ(plan_geometry(8 * GiB, options, gpu(0), large_granule, 1), largest(8 * GiB, 1));
}

TEST(Geometry, RoundsAChunkSizeUpToGranules) {
  EXPECT_EQ(plan(10 * large_granule, 1).chunk_bytes, large_granule);
  EXPECT_EQ(plan(10 * large_granule, large_granule + 1).chunk_bytes, 2 * large_granule);
}

TEST(Geometry, RefusesWhatCannotBe) {
  EXPECT_TRUE(says(expect_error(ErrorKind::invalid_argument, [] { plan(0); }), "0 bytes"));
  const std::uint64_t too_much = (std::uint64_t{1} << 46) + 1;
  EXPECT_TRUE(says(expect_error(ErrorKind::invalid_argument, [&] { plan(too_much); }),
                   std::to_string(too_much)));
  expect_error(ErrorKind::invalid_argument, [] { plan(UINT64_MAX); });
  EXPECT_NO_THROW(plan(large_granule, 256 * MiB));
  EXPECT_TRUE(
      says(expect_error(ErrorKind::invalid_argument, [] { plan(large_granule, 256 * MiB + 1); }),
           std::to_string(256 * MiB + 1)));
  expect_error(ErrorKind::invalid_argument, [] { plan(large_granule, UINT64_MAX - 1); });
  EXPECT_NO_THROW(plan(8 * 1024 * GiB, large_granule));
  EXPECT_TRUE(says(
      expect_error(ErrorKind::invalid_argument, [] { plan(8 * 1024 * GiB + 1, large_granule); }),
      "4194304 chunks"));
}

}  // namespace
}  // namespace vma
