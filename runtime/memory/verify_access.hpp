#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// Builds with VMART_CHECK_ACCESS query the driver for the rights of a slot after each grant.
#ifdef VMART_CHECK_ACCESS
inline constexpr bool access_is_verified = true;
#else
inline constexpr bool access_is_verified = false;
#endif

/// Checks that each accessor has exactly the stated rights at both ends of the range. If the query
/// itself fails, the check passes.
void check_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                  std::span<const Accessor> accessors) noexcept;

/// Calls `check_access` in builds that verify; otherwise does nothing, because each query is a
/// driver call while a moving slot keeps work waiting.
inline void verify_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                          std::span<const Accessor> accessors) noexcept {
  if constexpr (access_is_verified) check_access(driver, begin, size_bytes, accessors);
}

}  // namespace vma
