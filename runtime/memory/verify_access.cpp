#include "memory/verify_access.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <exception>

namespace vma {

void check_access(Driver& driver, Address begin, std::uint64_t size_bytes,
                  std::span<const Accessor> accessors) noexcept {
  for (const Address address : {begin, begin + (size_bytes - 1)}) {
    for (const Accessor& accessor : accessors) {
      try {
        const Access granted = driver.access(address, accessor.who);
        VMART_CHECK(granted == accessor.access, "a slot grants what was asked for");
      } catch (const std::exception& error) {
        log(LogLevel::debug, "access at {:#x} could not be asked for: {}", to_integer(address),
            error.what());
      }
    }
  }
}

}  // namespace vma
