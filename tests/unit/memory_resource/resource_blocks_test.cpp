// Goal: what callers of `cuda::mr` count on of each block, as RMM's tests of resources state it:
// sizes, alignments, different addresses, memory that kernels use. Method: every way to hold a
// resource and to order its calls; the bytes are written and read by simulated kernels.
#include "unit/memory_resource/resource_rig.hpp"

#include "support/test_run.hpp"

#include <random>
#include <set>
#include <vector>

namespace vma {
namespace {

class ResourceBlocks : public ResourceTest {
 protected:
  /// A block, with the pattern that a kernel writes into all its words.
  struct Block {
    std::uint64_t* words;
    std::size_t bytes;
    std::uint64_t seed;
  };

  Block make(std::size_t bytes, std::uint64_t seed) {
    const Block block{static_cast<std::uint64_t*>(allocate(bytes)), bytes, seed};
    rig_.fill_by(0, block.words, bytes / word_bytes, seed);
    return block;
  }
  void check_and_free(const Block& block) {
    EXPECT_EQ(rig_.wrong_for(1, block.words, block.bytes / word_bytes, block.seed), 0u)
        << block.bytes << " bytes";
    deallocate(block.words, block.bytes);
  }

  std::size_t random_bytes() {
    return std::uniform_int_distribution<std::size_t>(word_bytes, 100'000)(random_);
  }

  std::mt19937_64 random_{run_seed()};
};

TEST_P(ResourceBlocks, HaveEverySize) {
  std::uint64_t seed = 1;
  for (const std::size_t bytes : {word_bytes, std::size_t{1000}, std::size_t{4096},
                                  std::size_t{1} << 20, std::size_t{9} << 20}) {
    check_and_free(make(bytes, ++seed));
  }
}

TEST_P(ResourceBlocks, OfNoBytesAreNullAndNullIsFreed) {
  EXPECT_EQ(allocate(0), nullptr);
  deallocate(nullptr, 0);
  deallocate(nullptr, 100);
}

TEST_P(ResourceBlocks, AreAlignedAsMallocOfCudaAndToMoreByRequest) {
  for (std::size_t alignment = 1; alignment <= 65'536; alignment *= 2) {
    void* block = allocate(1000, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % std::max<std::size_t>(alignment, 256), 0u);
    deallocate(block, 1000, alignment);
  }
}

TEST_P(ResourceBlocks, AreDifferent) {
  std::set<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.insert(allocate(64));
  EXPECT_EQ(blocks.size(), 100u);
  EXPECT_EQ(blocks.count(nullptr), 0u);
  for (void* block : blocks) deallocate(block, 64);
  EXPECT_EQ(resource_.pool().stats().used_bytes, 0u);
}

TEST_P(ResourceBlocks, OfRandomSizesKeepWhatKernelsWrite) {
  std::vector<Block> blocks;
  for (std::uint64_t i = 1; i <= 50; ++i) blocks.push_back(make(random_bytes(), i << 32));
  for (const Block& block : blocks) check_and_free(block);
  EXPECT_EQ(resource_.pool().stats().used_bytes, 0u);
}

TEST_P(ResourceBlocks, KeepItBesideOthersThatComeAndGo) {
  std::vector<Block> blocks;
  for (std::uint64_t i = 1; i <= 150; ++i) {
    if (blocks.empty() || random_() % 100 < 55) {
      blocks.push_back(make(random_bytes(), i << 32));
      continue;
    }
    std::swap(blocks[random_() % blocks.size()], blocks.back());
    check_and_free(blocks.back());
    blocks.pop_back();
  }
  for (const Block& block : blocks) check_and_free(block);
}

INSTANTIATE_TEST_SUITE_P(Held, ResourceBlocks, VMART_ALL_WAYS);

}  // namespace
}  // namespace vma
