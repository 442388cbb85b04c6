#include "migrate/copying/digest.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

namespace vma {

namespace math = digest_math;

namespace {

constexpr std::string_view ptx_parts[] = {
#include "migrate/copying/kernels/digest.ptx.inc"
};

constexpr std::uint64_t image[] = {
#include "migrate/copying/kernels/digest.image.inc"
};

std::string ptx() {
  std::string whole;
  for (const std::string_view part : ptx_parts) whole += part;
  return whole;
}

constexpr std::uint64_t column_bytes = digest_math::rows * sizeof(digest_math::Vector);
// On a simulated machine other work may, and should, run between two accesses of a body.
constexpr std::uint64_t piece_bytes = 512;

/// What a launch works on, and its arithmetic.
struct Launch {
  std::byte* target;  // Null for the kernel that copies nothing, as are the last two.
  const std::byte* source;
  std::uint64_t* digests;
  std::uint64_t* counters;
  std::uint64_t* dirty_out;
  std::uint64_t tiles;
  TileHash hash;

  /// Calls `visit(offset, size)` for the pieces of the tile.
  template <typename Visit>
  void for_pieces(std::uint64_t tile, Visit visit) const {
    const std::uint64_t tile_bytes = hash.tile_bytes();
    for (std::uint64_t done = 0; done < tile_bytes; done += piece_bytes) {
      visit(tile * tile_bytes + done, std::min(piece_bytes, tile_bytes - done));
    }
  }
};

TileHash hash_of(const KernelArguments& arguments, std::size_t first_key, LaunchShape shape) {
  const DigestKey key{
      {arguments.at<std::uint64_t>(first_key), arguments.at<std::uint64_t>(first_key + 1)}};
  return TileHash(key, shape.block.x);
}

TileHash::Digest digest_tile(DeviceView& memory, Launch& launch, std::uint64_t tile) {
  std::array<std::byte, piece_bytes> buffer;
  launch.for_pieces(tile, [&](std::uint64_t offset, std::uint64_t size) {
    const std::span piece = std::span(buffer).first(size);
    memory.read(launch.source + offset, piece);
    launch.hash.mix(piece);
  });
  return launch.hash.finish();
}

void copy_tile(DeviceView& memory, Launch& launch, std::uint64_t tile) {
  std::array<std::byte, piece_bytes> buffer;
  launch.for_pieces(tile, [&](std::uint64_t offset, std::uint64_t size) {
    // Read once: what is stored is what is digested (I6).
    const std::span piece = std::span(buffer).first(size);
    memory.read(launch.source + offset, piece);
    memory.write(launch.target + offset, piece);
    launch.hash.mix(piece);
  });
  const TileHash::Digest digest = launch.hash.finish();
  memory.write(launch.digests + 2 * tile, std::as_bytes(std::span(digest)));
}

bool tile_differs(DeviceView& memory, const Launch& launch, std::uint64_t tile) {
  std::array<std::byte, piece_bytes> ours, theirs;
  bool differs = false;
  launch.for_pieces(tile, [&](std::uint64_t offset, std::uint64_t size) {
    memory.read(launch.target + offset, std::span(ours).first(size));
    memory.read(launch.source + offset, std::span(theirs).first(size));
    differs |=
        !std::equal(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(size), theirs.begin());
  });
  return differs;
}

void copy_digest_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape shape) {
  Launch launch{arguments.at<std::byte*>(0),
                arguments.at<const std::byte*>(1),
                arguments.at<std::uint64_t*>(2),
                nullptr,
                nullptr,
                arguments.at<std::uint64_t>(3),
                hash_of(arguments, 4, shape)};
  for (std::uint64_t tile = 0; tile < launch.tiles; ++tile) copy_tile(memory, launch, tile);
}

void copy_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape) {
  std::byte* const target = arguments.at<std::byte*>(0);
  const std::byte* const source = arguments.at<const std::byte*>(1);
  const std::uint64_t size_bytes = arguments.at<std::uint64_t>(2) * sizeof(digest_math::Vector);
  std::array<std::byte, piece_bytes> buffer;
  for (std::uint64_t done = 0; done < size_bytes; done += piece_bytes) {
    const std::span piece = std::span(buffer).first(std::min(piece_bytes, size_bytes - done));
    memory.read(source + done, piece);
    memory.write(target + done, piece);
  }
}

void digest_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape shape) {
  Launch launch{
      nullptr, arguments.at<const std::byte*>(0), arguments.at<std::uint64_t*>(1), nullptr,
      nullptr, arguments.at<std::uint64_t>(2),    hash_of(arguments, 3, shape)};
  for (std::uint64_t tile = 0; tile < launch.tiles; ++tile) {
    const TileHash::Digest digest = digest_tile(memory, launch, tile);
    memory.write(launch.digests + 2 * tile, std::as_bytes(std::span(digest)));
  }
}

template <typename Differs>
void settle(DeviceView& memory, const KernelArguments& arguments, LaunchShape shape,
            Differs differs) {
  Launch launch{arguments.at<std::byte*>(0),     arguments.at<const std::byte*>(1),
                arguments.at<std::uint64_t*>(2), arguments.at<std::uint64_t*>(3),
                arguments.at<std::uint64_t*>(4), arguments.at<std::uint64_t>(5),
                hash_of(arguments, 6, shape)};
  std::uint64_t dirty = 0;
  for (std::uint64_t tile = 0; tile < launch.tiles; ++tile) {
    if (!differs(launch, tile)) continue;
    copy_tile(memory, launch, tile);
    ++dirty;
  }
  dirty += memory.atomic_add(launch.counters, dirty);
  memory.store(launch.counters, std::uint64_t{0});
  memory.store(launch.dirty_out, dirty);
}

void settle_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape shape) {
  settle(memory, arguments, shape, [&](Launch& launch, std::uint64_t tile) {
    const TileHash::Digest now = digest_tile(memory, launch, tile);
    TileHash::Digest before;
    memory.read(launch.digests + 2 * tile, std::as_writable_bytes(std::span(before)));
    return now != before;
  });
}

void paranoid_settle_body(DeviceView& memory, const KernelArguments& arguments, LaunchShape shape) {
  settle(memory, arguments, shape, [&](const Launch& launch, std::uint64_t tile) {
    return tile_differs(memory, launch, tile);
  });
}

}  // namespace

DigestKey DigestKey::random() {
  std::random_device source;
  DigestKey key;
  for (std::uint64_t& word : key.words) {
    word = source();
    word = word << 32 | source();
  }
  return key;
}

Tiling Tiling::of(std::uint64_t chunk_bytes, std::uint64_t tile_bytes) {
  VMART_CHECK(tile_bytes != 0 && tile_bytes % column_bytes == 0, "a tile is whole columns");
  VMART_CHECK(tile_bytes / column_bytes <= digest_math::columns_max, "a block has 1024 threads");
  VMART_CHECK(chunk_bytes % tile_bytes == 0, "what lies behind the last whole tile is not copied");
  return {tile_bytes, chunk_bytes / tile_bytes};
}

unsigned Tiling::columns() const {
  return static_cast<unsigned>(tile_bytes / column_bytes);
}

const Kernel& copy_digest_kernel() {
  // Never destroyed: our threads may load it while the process exits. The same holds below.
  static const Kernel& kernel = *new Kernel{ptx(), "vmart_live_copy_digest", copy_digest_body};
  return kernel;
}

const Kernel& copy_kernel() {
  static const Kernel& kernel = *new Kernel{ptx(), "vmart_copy", copy_body};
  return kernel;
}

const Kernel& digest_kernel() {
  static const Kernel& kernel = *new Kernel{ptx(), "vmart_live_digest", digest_body};
  return kernel;
}

const Kernel& settle_kernel() {
  static const Kernel& kernel = *new Kernel{ptx(), "vmart_live_settle", settle_body};
  return kernel;
}

const Kernel& paranoid_settle_kernel() {
  static const Kernel& kernel =
      *new Kernel{ptx(), "vmart_live_settle_paranoid", paranoid_settle_body};
  return kernel;
}

std::span<const std::uint64_t> digest_kernels_image() {
  return image;
}

KernelArguments copy_digest_arguments(Address target, Address source, Address digests,
                                      const Tiling& tiling, const DigestKey& key) {
  return KernelArguments::of(target, source, digests, tiling.tiles, key.words[0], key.words[1]);
}

KernelArguments copy_arguments(Address target, Address source, std::uint64_t size_bytes) {
  return KernelArguments::of(target, source, size_bytes / sizeof(digest_math::Vector));
}

KernelArguments digest_arguments(Address source, Address digests, const Tiling& tiling,
                                 const DigestKey& key) {
  return KernelArguments::of(source, digests, tiling.tiles, key.words[0], key.words[1]);
}

KernelArguments settle_arguments(Address target, Address source, Address digests, Address counters,
                                 Address dirty_out, const Tiling& tiling, const DigestKey& key) {
  return KernelArguments::of(target, source, digests, counters, dirty_out, tiling.tiles,
                             key.words[0], key.words[1]);
}

LaunchShape tile_shape(const Tiling& tiling, unsigned blocks) {
  VMART_CHECK(blocks != 0, "at least one block runs");
  const std::uint64_t grid = std::clamp<std::uint64_t>(tiling.tiles, 1, blocks);
  return {{static_cast<unsigned>(grid)}, {tiling.columns()}};
}

LaunchShape copy_shape(int multiprocessors) {
  constexpr unsigned threads = 512;
  return {{static_cast<unsigned>(std::max(multiprocessors, 1))}, {threads}};
}

TileHash::TileHash(const DigestKey& key, unsigned columns)
    : column_keys_(std::size_t{columns} * math::column_keys), columns_(columns) {
  for (unsigned row = 0; row < math::row_keys; ++row) {
    row_keys_[row] = math::row_key(key.words[0], key.words[1], row);
  }
  for (std::size_t i = 0; i < column_keys_.size(); ++i) {
    column_keys_[i] =
        math::column_key(key.words[0], key.words[1], static_cast<unsigned>(i / math::column_keys),
                         static_cast<unsigned>(i % math::column_keys));
  }
}

void TileHash::mix(std::span<const std::byte> bytes) {
  VMART_CHECK(bytes.size() % sizeof(math::Vector) == 0, "a thread of the kernel takes vectors");
  VMART_CHECK(bytes.size() <= tile_bytes() - taken_bytes_, "a digest is of one tile");
  while (!bytes.empty()) {
    const std::uint64_t row = taken_bytes_ / row_bytes();
    const std::uint64_t begin = taken_bytes_ % row_bytes();
    const std::uint64_t size = std::min<std::uint64_t>(bytes.size(), row_bytes() - begin);
    math::Column* column = columns_.data() + begin / sizeof(math::Vector);
    for (std::uint64_t done = 0; done < size; done += sizeof(math::Vector)) {
      math::Vector data;
      std::memcpy(&data, bytes.data() + done, sizeof data);
      math::mix(*column++, data, row_keys_[row], row_keys_[row + 1]);
    }
    taken_bytes_ += size;
    bytes = bytes.subspan(size);
  }
}

TileHash::Digest TileHash::finish() {
  VMART_CHECK(taken_bytes_ == tile_bytes(), "a digest is of a whole tile");
  Digest digest{};
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::uint64_t* keys = column_keys_.data() + c * math::column_keys;
    for (unsigned j = 0; j < math::passes; ++j) {
      const std::uint64_t term =
          math::column_term(columns_[c].sums[j], keys[2 * j], keys[2 * j + 1]);
      digest[j] = math::fold(digest[j] + term);
    }
    columns_[c] = {};
  }
  for (std::uint64_t& word : digest) word = math::reduce(word);
  taken_bytes_ = 0;
  return digest;
}

}  // namespace vma
