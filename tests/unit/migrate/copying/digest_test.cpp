// Goal: digests are those defined in runtime/migrate/copying/README.md, and no change of a tile
// goes unnoticed; the kernels keep I6 whatever others write between their accesses. Method: known
// answers from a second implementation, random keys, and a memory that interferes.
#include "migrate/copying/digest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace vma {
namespace {

using Bytes = std::vector<std::byte>;
using Digest = TileHash::Digest;
using Random = std::mt19937_64;

constexpr DigestKey known_key{{0x0123456789ABCDEF, 0xFEDCBA9876543210}};

Digest digest_of(std::span<const std::byte> tile, const DigestKey& key) {
  TileHash hash(key, static_cast<unsigned>(tile.size() / 256));
  hash.mix(tile);
  return hash.finish();
}

Bytes random_bytes(std::size_t size, Random& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

DigestKey random_key(Random& random) {
  return {{random(), random()}};
}

/// Plain memory with a hook before each access.
class HostView : public DeviceView {
 public:
  std::function<void(int access)> before = [](int) {};
  /// Writes to such an address are lost.
  std::function<bool(const void*)> loses = [](const void*) { return false; };
  int accesses = 0;

  int device() const override { return 0; }
  void read(const void* address, std::span<std::byte> out) override {
    before(accesses++);
    std::memcpy(out.data(), address, out.size());
  }
  void write(void* address, std::span<const std::byte> bytes) override {
    before(accesses++);
    if (!loses(address)) std::memcpy(address, bytes.data(), bytes.size());
  }
  std::uint64_t atomic_add(std::uint64_t* address, std::uint64_t value) override {
    before(accesses++);
    return std::exchange(*address, *address + value);
  }
};

/// A source, a target and everything that the kernels keep about them.
struct DigestedChunk {
  explicit DigestedChunk(std::uint64_t tile_bytes = 1280, std::uint64_t tiles = 7)
      : tiling(Tiling::of(tiles * tile_bytes, tile_bytes)),
        key(random_key(random)),
        source(random_bytes(tiles * tile_bytes, random)),
        target(source.size()),
        digests(tiles) {}

  void run(const Kernel& kernel, const KernelArguments& arguments) {
    kernel.host_body(view, arguments, tile_shape(tiling, 3));
  }
  void copy_digest() {
    run(copy_digest_kernel(),
        copy_digest_arguments(address_of(target.data()), address_of(source.data()),
                              address_of(digests.data()), tiling, key));
  }
  /// Returns the number of tiles copied.
  std::uint64_t settle(const Kernel& kernel = settle_kernel()) {
    std::uint64_t dirty = ~std::uint64_t{0};
    run(kernel, settle_arguments(address_of(target.data()), address_of(source.data()),
                                 address_of(digests.data()), address_of(counters.data()),
                                 address_of(&dirty), tiling, key));
    EXPECT_EQ(counters, (std::array<std::uint64_t, 2>{}));
    return dirty;
  }
  /// Changes some byte of a tile of the source.
  void change(std::uint64_t tile) {
    const std::uint64_t at = tile * tiling.tile_bytes + random() % tiling.tile_bytes;
    source[at] ^= static_cast<std::byte>(1 + random() % 255);
  }
  Digest digest_of_target(std::uint64_t tile) const {
    return digest_of(std::span(target).subspan(tile * tiling.tile_bytes, tiling.tile_bytes), key);
  }
  void expect_digests_of_target() const {
    for (std::uint64_t tile = 0; tile < tiling.tiles; ++tile) {
      EXPECT_EQ(digests[tile], digest_of_target(tile)) << "tile " << tile;
    }
  }

  Random random{1};
  HostView view;
  Tiling tiling;
  DigestKey key;
  Bytes source, target;
  std::vector<Digest> digests;
  std::array<std::uint64_t, 2> counters{};
};

TEST(Digest, IsTheOneOfASecondImplementation) {
  struct Known {
    std::size_t columns, seed;
    Digest digest;
  };
  const Known known[] = {
      {1, 0, {0x0df1e5fb20b546bd, 0x08623e0529da4dc2}},
      {1, 1, {0x0653f8ebce7ff78b, 0x087ea7673c5a55fb}},
      {3, 5, {0x0bca7a9cda46b2fe, 0x02d6a6e5299fa038}},
      {256, 7, {0x17f57de3a6575fb9, 0x0d0c648ac5514b31}},
      {1024, 9, {0x0d67edca9505b0fc, 0x05d8f9349562c3a3}},
  };
  for (const Known& one : known) {
    Bytes bytes(one.columns * 256);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i * i * one.seed + (i >> 3));
    }
    EXPECT_EQ(digest_of(bytes, known_key), one.digest) << one.columns << " columns";
  }
  constexpr std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(digest_of(Bytes(256, std::byte{255}), {{ones, ones}}),
            (Digest{0x1d82ad5985e8b6fe, 0x04e35da13fa59a49}));
}

TEST(Digest, TakesATileInByPiecesOfAnySize) {
  Random random(2);
  const Bytes bytes = random_bytes(5 * 256, random);
  TileHash hash(known_key, 5);
  for (int round = 0; round < 50; ++round) {
    for (std::size_t done = 0; done < bytes.size();) {
      const std::size_t size = std::min(bytes.size() - done, 16 * (1 + random() % 12));
      hash.mix(std::span(bytes).subspan(done, size));
      done += size;
    }
    ASSERT_EQ(hash.finish(), digest_of(bytes, known_key));
  }
}

TEST(Digest, EitherWordTellsAnyChangedByte) {
  Random random(3);
  for (const std::size_t columns : {1, 3, 32}) {
    Bytes bytes = random_bytes(columns * 256, random);
    for (std::byte& byte : bytes) {
      const DigestKey key = random_key(random);
      const Digest before = digest_of(bytes, key);
      byte ^= static_cast<std::byte>(1 + random() % 255);
      const Digest after = digest_of(bytes, key);
      ASSERT_NE(before[0], after[0]) << "byte " << &byte - bytes.data();
      ASSERT_NE(before[1], after[1]) << "byte " << &byte - bytes.data();
    }
  }
}

TEST(Digest, TellsWhereVectorsLie) {
  Random random(4);
  constexpr std::size_t columns = 3, vectors = columns * 16;
  const Bytes bytes = random_bytes(columns * 256, random);
  const Digest before = digest_of(bytes, known_key);
  for (std::size_t a = 0; a < vectors; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      Bytes swapped = bytes;
      std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(16 * a),
                       swapped.begin() + static_cast<std::ptrdiff_t>(16 * a + 16),
                       swapped.begin() + static_cast<std::ptrdiff_t>(16 * b));
      const Digest after = digest_of(swapped, known_key);
      ASSERT_NE(before[0], after[0]) << a << " and " << b;
      ASSERT_NE(before[1], after[1]) << a << " and " << b;
    }
  }
}

TEST(Digest, DependsOnBothWordsOfTheKey) {
  Random random(5);
  const Bytes bytes = random_bytes(1024, random);
  const Digest before = digest_of(bytes, known_key);
  for (int bit = 0; bit < 128; ++bit) {
    DigestKey key = known_key;
    key.words[bit / 64] ^= std::uint64_t{1} << bit % 64;
    EXPECT_NE(digest_of(bytes, key)[0], before[0]) << "bit " << bit;
    EXPECT_NE(digest_of(bytes, key)[1], before[1]) << "bit " << bit;
  }
  const DigestKey one = DigestKey::random(), other = DigestKey::random();
  EXPECT_NE(one.words[0], other.words[0]);
  EXPECT_NE(one.words[1], other.words[1]);
}

TEST(DigestKernels, CopyDigestCopiesAndDigests) {
  for (const std::uint64_t tile_bytes : {256, 768, 65536}) {
    DigestedChunk chunk(tile_bytes, 5);
    chunk.copy_digest();
    EXPECT_EQ(chunk.target, chunk.source);
    chunk.expect_digests_of_target();
    std::vector<Digest> alone(chunk.tiling.tiles);
    chunk.run(digest_kernel(), digest_arguments(address_of(chunk.source.data()),
                                                address_of(alone.data()), chunk.tiling, chunk.key));
    EXPECT_EQ(alone, chunk.digests);
  }
}

TEST(DigestKernels, SettlingCopiesTheChangedTilesAndNoOther) {
  for (unsigned changed = 0; changed < 128; ++changed) {
    SCOPED_TRACE(changed);
    DigestedChunk chunk;
    chunk.copy_digest();
    Bytes expected = chunk.target;
    for (std::uint64_t tile = 0; tile < chunk.tiling.tiles; ++tile) {
      if ((changed >> tile & 1) != 0) chunk.change(tile);
    }
    chunk.view.accesses = 0;
    int target_writes = 0;
    chunk.view.loses = [&](const void* to) {
      const auto* byte = static_cast<const std::byte*>(to);
      target_writes += byte >= chunk.target.data() && byte < &chunk.target.back();
      return false;
    };
    EXPECT_EQ(chunk.settle(), static_cast<unsigned>(std::popcount(changed)));
    EXPECT_EQ(target_writes, 3 * std::popcount(changed)) << "1280 bytes by 512";
    EXPECT_EQ(chunk.target, chunk.source);
    chunk.expect_digests_of_target();
    EXPECT_EQ(chunk.settle(), 0u);
  }
}

TEST(DigestKernels, ParanoidSettlingBelievesBytesAndNotDigests) {
  DigestedChunk chunk;
  chunk.copy_digest();
  chunk.target[3000] ^= std::byte{1};
  EXPECT_EQ(chunk.settle(), 0u) << "the digest is still that of the source";
  EXPECT_EQ(chunk.settle(paranoid_settle_kernel()), 1u);
  EXPECT_EQ(chunk.target, chunk.source);
  chunk.change(0), chunk.change(6);
  EXPECT_EQ(chunk.settle(paranoid_settle_kernel()), 2u);
  EXPECT_EQ(chunk.target, chunk.source);
  chunk.expect_digests_of_target();
  EXPECT_EQ(chunk.settle(paranoid_settle_kernel()), 0u);
}

// I6: whatever is written before any access of any kernel, the digests are those of the target.
TEST(DigestKernels, DigestsAreOfTheTargetWhateverIsWrittenBetweenTheirAccesses) {
  const std::function<void(DigestedChunk&)> works[] = {
      [](DigestedChunk& chunk) { chunk.copy_digest(); },
      [](DigestedChunk& chunk) { chunk.settle(); },
      [](DigestedChunk& chunk) { chunk.settle(paranoid_settle_kernel()); },
  };
  for (const auto& work : works) {
    for (int when = 0;; ++when) {
      SCOPED_TRACE(when);
      DigestedChunk chunk(1280, 2);
      chunk.copy_digest();
      chunk.change(0), chunk.change(1);
      chunk.view.accesses = 0;
      chunk.view.before = [&](int access) {
        if (access != when) return;
        for (std::byte& byte : chunk.source) byte ^= static_cast<std::byte>(chunk.random());
      };
      work(chunk);
      chunk.expect_digests_of_target();
      const bool written = chunk.view.accesses > when;
      chunk.view.before = [](int) {};
      chunk.settle();
      EXPECT_EQ(chunk.target, chunk.source) << "what was written in between is found afterwards";
      if (!written || HasFailure()) break;
    }
  }
}

/// A tile changes from A to B, is settled for a gate that is then given up, and changes back to A.
/// Returns whether the next settling notices.
bool survives_a_b_a(bool new_digests_are_kept) {
  DigestedChunk chunk;
  chunk.copy_digest();
  const Bytes a = chunk.source;
  chunk.change(2);
  if (!new_digests_are_kept) {
    chunk.view.loses = [&](const void* to) { return to == &chunk.digests[2]; };
  }
  EXPECT_EQ(chunk.settle(), 1u);
  chunk.source = a;
  chunk.settle();
  return chunk.target == chunk.source;
}

TEST(DigestKernels, ATileThatChangedAndChangedBackOverAGivenUpGateIsFound) {
  EXPECT_TRUE(survives_a_b_a(true));
  EXPECT_FALSE(survives_a_b_a(false)) << "the test does not see what it is for";
}

TEST(Tiling, IsOfWholeColumnsAndWholeTiles) {
  const Tiling tiling = Tiling::of(2 << 20, 256 << 10);
  EXPECT_EQ(tiling.tiles, 8u);
  EXPECT_EQ(tiling.columns(), 1024u);
  EXPECT_EQ(tile_shape(tiling, 528).grid.x, 8u);
  EXPECT_EQ(tile_shape(tiling, 3).grid.x, 3u);
  EXPECT_EQ(tile_shape(tiling, 3).block.x, 1024u);
  EXPECT_DEATH(Tiling::of(1000, 100), "whole columns");
  EXPECT_DEATH(Tiling::of(1024, 768), "is not copied");
  EXPECT_DEATH(Tiling::of(1 << 20, 512 << 10), "1024 threads");
}

}  // namespace
}  // namespace vma
