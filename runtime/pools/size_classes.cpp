#include "pools/size_classes.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <bit>

namespace vma {
namespace {

constexpr int first_power = 12;  // From 4 KiB on.
constexpr int steps_power = 4;   // 16 classes for each power of two.
constexpr std::uint64_t large_step_bytes = 64 * KiB;

}  // namespace

std::uint64_t SizeClasses::rounded(std::uint64_t bytes) noexcept {
  if (bytes <= std::uint64_t{1} << first_power) return round_up(bytes, step_bytes);
  if (bytes > MiB) return round_up(bytes, large_step_bytes);
  const int power = std::bit_width(bytes - 1) - 1;
  return round_up(bytes, std::uint64_t{1} << (power - steps_power));
}

std::size_t SizeClasses::bin_of(std::uint64_t size_bytes) noexcept {
  if (size_bytes < std::uint64_t{1} << first_power) return size_bytes / step_bytes - 1;
  const int power = std::bit_width(size_bytes) - 1;
  const std::size_t step = (size_bytes >> (power - steps_power)) - 16;
  const std::size_t bin = 15 + static_cast<std::size_t>(power - first_power) * 16 + step;
  return std::min(bin, bins - 1);
}

std::uint64_t SizeClasses::blocks_of_slab(std::uint64_t size_bytes) noexcept {
  return std::clamp<std::uint64_t>(64 * KiB / size_bytes, 4, 64);
}

}  // namespace vma
