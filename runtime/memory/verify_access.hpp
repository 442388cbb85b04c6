#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// Builds with VMART_CHECK_ACCESS ask the driver after each grant of a slot who may do what there.
#ifdef VMART_CHECK_ACCESS
inline constexpr bool access_is_verified = true;
#else
inline constexpr bool access_is_verified = false;
#endif

/// Checks that each accessor may do just what it says at both ends of the range. A driver that
/// fails the question has not answered it, which breaks nothing.
void check_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                  std::span<const Accessor> accessors) noexcept;

/// The same in builds that verify; else nothing, because each question is a call while a slot that
/// moves keeps work waiting.
inline void verify_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                          std::span<const Accessor> accessors) noexcept {
  if constexpr (access_is_verified) check_access(driver, begin, size_bytes, accessors);
}

}  // namespace vma
