// Goal: blocks hold what was asked for, and rounding wastes little. Method: every size up to some
// MiB, and those around powers of two.
#include "pools/block.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

namespace vma {
namespace {

TEST(SizeClasses, RoundsUpByAtMostASixteenthAndByThreePercentOnAverage) {
  double waste = 0;
  std::uint64_t sizes = 0;
  for (std::uint64_t bytes = 1; bytes <= 3'000'000; bytes += bytes < 10'000 ? 1 : 97) {
    const std::uint64_t size = SizeClasses::rounded(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_EQ(size % SizeClasses::step_bytes, 0u);
    ASSERT_EQ(SizeClasses::rounded(size), size) << "a class is its own size";
    if (bytes <= 4096) {
      ASSERT_LT(size - bytes, SizeClasses::step_bytes);
      continue;
    }
    ASSERT_LE(size - bytes, bytes / 16) << bytes;
    waste += static_cast<double>(size - bytes) / static_cast<double>(bytes);
    ++sizes;
  }
  EXPECT_LT(waste / static_cast<double>(sizes), 0.033);
}

TEST(SizeClasses, ABinHasOnlyBlocksThatHoldItsClass) {
  std::size_t last = 0;
  for (std::uint64_t size = 256; size <= 4'000'000; size += 256) {
    const std::size_t bin = SizeClasses::bin_of(size);
    ASSERT_GE(bin, last) << "larger blocks are in later bins";
    ASSERT_LE(bin, last + 1);
    last = bin;
    if (size <= 1 << 20 && SizeClasses::rounded(size) != size) {
      ASSERT_EQ(bin + 1, SizeClasses::bin_of(SizeClasses::rounded(size))) << size;
    }
  }
  for (int power = 20; power < 46; ++power) {
    ASSERT_LT(SizeClasses::bin_of(std::uint64_t{1} << power), SizeClasses::bins);
  }
}

TEST(SizeClasses, SlabsHaveNoTail) {
  for (std::uint64_t size = 256; size <= SizeClasses::small_bytes_max;
       size = SizeClasses::rounded(size + 1)) {
    EXPECT_GE(SizeClasses::blocks_of_slab(size), 4u);
    EXPECT_LE(SizeClasses::blocks_of_slab(size) * size, 80u * 1024);
  }
}

}  // namespace
}  // namespace vma
