#pragma once

#include <compare>
#include <cstdint>

namespace vma {

/// A GPU of the driver, by CUDA ordinal.
enum class DeviceId : int {};
constexpr int index(DeviceId device) {
  return static_cast<int>(device);
}

/// An address, which is the same for all GPUs and the CPU.
enum class Address : std::uint64_t {};

constexpr std::uint64_t to_integer(Address address) {
  return static_cast<std::uint64_t>(address);
}
constexpr Address operator+(Address address, std::uint64_t offset) {
  return Address{to_integer(address) + offset};
}
constexpr std::uint64_t operator-(Address end, Address begin) {
  return to_integer(end) - to_integer(begin);
}
inline Address address_of(const void* pointer) {
  return Address{reinterpret_cast<std::uint64_t>(pointer)};
}
inline void* to_pointer(Address address) {
  return reinterpret_cast<void*>(to_integer(address));
}

// Handles of a driver. Zero means none.
enum class ChunkHandle : std::uint64_t {};
enum class ContextHandle : std::uint64_t {};
enum class StreamHandle : std::uint64_t {};
enum class EventHandle : std::uint64_t {};
enum class KernelHandle : std::uint64_t {};
enum class GraphHandle : std::uint64_t {};
enum class ExecGraphHandle : std::uint64_t {};
enum class SuspensionHandle : std::uint64_t {};

template <typename Handle>
constexpr bool is_none(Handle handle) {
  return static_cast<std::uint64_t>(handle) == 0;
}

}  // namespace vma
