// Goal: the digest kernels, on memory of two GPUs, compute the same digests as the host, bit for
// bit, and settling copies exactly what changed.

#include "gpu/gpu_test.hpp"
#include "migrate/copying/digest.hpp"

#include <array>
#include <random>
#include <span>
#include <vector>

namespace vma {
namespace {

using Digest = TileHash::Digest;
using Word = std::uint64_t;

/// A source on one GPU, a target on the other, and what the kernels keep with the source.
class Tiles {
 public:
  Tiles(GpuRig& rig, std::uint64_t tile_bytes, unsigned blocks)
      : rig_(rig),
        tiling_(Tiling::of(chunks * gpu_chunk_bytes, tile_bytes)),
        shape_(tile_shape(tiling_, blocks)),
        source_(rig, gpu(0), chunks),
        target_(rig, gpu(1), chunks),
        kept_(rig, gpu(0), 1),
        dirty_(rig, host(0), 1) {
    std::mt19937_64 random(tile_bytes + blocks);
    source_words_.resize(tiling_.tiles * tiling_.tile_bytes / sizeof(Word));
    for (Word& word : source_words_) word = random();
    rig.runtime().write(source_.pointer(), std::as_bytes(std::span(source_words_)));
    const std::vector<Word> zeros(gpu_chunk_bytes / sizeof(Word));
    rig.runtime().write(kept_.pointer(), std::as_bytes(std::span(zeros)));
  }

  const Tiling& tiling() const { return tiling_; }

  void copy_digest() {
    launch(copy_digest_kernel(),
           copy_digest_arguments(address_of(target_.pointer()), address_of(source_.pointer()),
                                 digests(), tiling_, key_));
  }
  void digest() {
    launch(digest_kernel(),
           digest_arguments(address_of(source_.pointer()), digests(), tiling_, key_));
  }
  /// Returns the number of tiles copied.
  Word settle(const Kernel& kernel = settle_kernel()) {
    launch(kernel,
           settle_arguments(address_of(target_.pointer()), address_of(source_.pointer()), digests(),
                            counters(), address_of(dirty_.pointer()), tiling_, key_));
    Word dirty = 0;
    rig_.runtime().read(dirty_.pointer(), std::as_writable_bytes(std::span(&dirty, 1)));
    std::array<Word, 2> left{};
    rig_.runtime().read(to_pointer(counters()), std::as_writable_bytes(std::span(left)));
    EXPECT_EQ(left, (std::array<Word, 2>{})) << "the next settling starts from zero";
    return dirty;
  }

  /// Flips one random bit in the tile of the source.
  void change_source(Word tile) {
    Word& word = word_of(tile);
    word ^= Word{1} << tile % 64;
    write_word(source_, word, &word - source_words_.data());
  }
  void spoil_target(Word tile) {
    const Word& word = word_of(tile);
    write_word(target_, ~word, &word - source_words_.data());
  }

  void expect_digests_of_source() {
    std::vector<Digest> found(tiling_.tiles);
    rig_.runtime().read(to_pointer(digests()), std::as_writable_bytes(std::span(found)));
    TileHash hash(key_, tiling_.columns());
    const auto bytes = std::as_bytes(std::span(source_words_));
    for (Word tile = 0; tile < tiling_.tiles; ++tile) {
      hash.mix(bytes.subspan(tile * tiling_.tile_bytes, tiling_.tile_bytes));
      ASSERT_EQ(found[tile], hash.finish()) << "tile " << tile;
    }
  }
  void expect_target_is_source() {
    std::vector<Word> found(source_words_.size());
    rig_.runtime().read(target_.pointer(), std::as_writable_bytes(std::span(found)));
    EXPECT_TRUE(found == source_words_);
  }

 private:
  static constexpr Word chunks = 4;

  Address digests() const { return address_of(kept_.pointer()); }
  Address counters() const { return digests() + gpu_chunk_bytes / 2; }

  void launch(const Kernel& kernel, const KernelArguments& arguments) {
    rig_.runtime().launch(rig_.stream(0), kernel, shape_.grid, shape_.block, arguments);
    rig_.runtime().synchronize(rig_.stream(0));
  }
  Word& word_of(Word tile) {
    const Word words = tiling_.tile_bytes / sizeof(Word);
    return source_words_[tile * words + tile * 9973 % words];
  }
  void write_word(const Pattern& to, Word word, std::ptrdiff_t at) {
    rig_.runtime().write(to.pointer() + at * static_cast<std::ptrdiff_t>(sizeof word),
                         std::as_bytes(std::span(&word, 1)));
  }

  GpuRig& rig_;
  const Tiling tiling_;
  const LaunchShape shape_;
  const DigestKey key_ = DigestKey::random();
  Pattern source_, target_, kept_, dirty_;
  std::vector<Word> source_words_;
};

template <typename Machine>
class GpuDigests : public GpuTest<Machine> {
 protected:
  /// Both tile sizes, with fewer blocks than tiles and with more.
  template <typename Body>
  void for_tiles(Body body) {
    for (const std::uint64_t tile_bytes : {256 << 10, 64 << 10}) {
      for (const unsigned blocks : {1u, 5u, 528u}) {
        SCOPED_TRACE(testing::Message() << tile_bytes << " bytes, " << blocks << " blocks");
        Tiles tiles(this->rig(), tile_bytes, blocks);
        body(tiles);
      }
    }
  }
};
TYPED_TEST_SUITE(GpuDigests, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuDigests, AreThoseOfTheHost) {
  this->for_tiles([](Tiles& tiles) {
    tiles.digest();
    tiles.expect_digests_of_source();
  });
}

TYPED_TEST(GpuDigests, OfACopyAreThoseOfItsBytes) {
  this->for_tiles([](Tiles& tiles) {
    tiles.copy_digest();
    tiles.expect_digests_of_source();
    tiles.expect_target_is_source();
  });
}

TYPED_TEST(GpuDigests, SettlingCopiesWhatChangedAndNothingElse) {
  this->for_tiles([](Tiles& tiles) {
    tiles.copy_digest();
    EXPECT_EQ(tiles.settle(), 0u);
    for (const Word step : {7, 3, 1}) {
      Word changed = 0;
      for (Word tile = 0; tile < tiles.tiling().tiles; tile += step) {
        tiles.change_source(tile);
        ++changed;
      }
      EXPECT_EQ(tiles.settle(), changed);
      tiles.expect_digests_of_source();
      tiles.expect_target_is_source();
      EXPECT_EQ(tiles.settle(), 0u);
    }
  });
}

TYPED_TEST(GpuDigests, ParanoidSettlingComparesBytes) {
  this->for_tiles([](Tiles& tiles) {
    tiles.copy_digest();
    EXPECT_EQ(tiles.settle(paranoid_settle_kernel()), 0u);
    tiles.spoil_target(1);
    EXPECT_EQ(tiles.settle(), 0u) << "the digests are as before";
    tiles.change_source(0);
    EXPECT_EQ(tiles.settle(paranoid_settle_kernel()), 2u);
    tiles.expect_digests_of_source();
    tiles.expect_target_is_source();
  });
}

}  // namespace
}  // namespace vma
