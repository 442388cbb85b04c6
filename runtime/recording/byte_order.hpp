#pragma once

#include <cstddef>
#include <cstdint>

namespace vma {

// Numbers in recordings. Fixed ones are little-endian. Variable ones (LEB128) have seven bits per
// byte, lowest first; the eighth bit says that another byte follows.

constexpr std::size_t varint_bytes_max = 10;

/// Maps signed differences to small numbers: 0, -1, 1, -2 to 0, 1, 2, 3.
constexpr std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr std::uint64_t unzigzag(std::uint64_t number) {
  return (number >> 1) ^ (0 - (number & 1));
}

/// Returns the position after the number. Requires: room for `varint_bytes_max`.
inline std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<std::uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *at++ = static_cast<std::uint8_t>(value);
  return at;
}

template <typename Unsigned>
std::uint8_t* put_fixed(std::uint8_t* at, Unsigned value) {
  for (std::size_t byte = 0; byte < sizeof(Unsigned); ++byte) {
    *at++ = static_cast<std::uint8_t>(value >> (8 * byte));
  }
  return at;
}

template <typename Unsigned>
Unsigned get_fixed(const std::uint8_t* at) {
  Unsigned value = 0;
  for (std::size_t byte = 0; byte < sizeof(Unsigned); ++byte) {
    value |= static_cast<Unsigned>(static_cast<Unsigned>(at[byte]) << (8 * byte));
  }
  return value;
}

}  // namespace vma
