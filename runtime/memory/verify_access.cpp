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
        VMART_CHECK(granted == accessor.access, "a slot grants the requested access");
      } catch (const std::exception& error) {
        log(LogLevel::debug, "cannot query the access rights at {:#x}: {}", to_integer(address),
            error.what());
      }
    }
  }
}

}  // namespace vma
