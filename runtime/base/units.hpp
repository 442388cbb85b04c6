#pragma once

#include <chrono>
#include <cstdint>

namespace vma {

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
constexpr std::uint64_t GiB = 1024 * MiB;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t multiple) {
  return value / multiple * multiple;
}

constexpr double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}
constexpr double in_ms(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace vma
