#include "migrate/copying/tile_hash.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>

namespace vma {

namespace math = digest_math;

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
