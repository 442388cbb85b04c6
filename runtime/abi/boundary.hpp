#pragma once

#include <vma/error.hpp>
#include <vma/location.hpp>
#include <vma/vmart.h>

#include <cstddef>
#include <exception>

namespace vma {

vmart_status to_status(ErrorKind kind) noexcept;
/// Throws: Error{invalid_argument} for a kind that is none.
Location to_location(vmart_location location, const char* call);
vmart_location to_c(Location location) noexcept;

/// Throws: Error{invalid_argument} where it is null.
void require_argument(const void* argument, const char* call, const char* name);

/// Bytes of a struct of any version; more is no size.
inline constexpr std::size_t struct_bytes_max = 4096;

/// What `vmart_last_error` returns on this thread; cut off where it is too long.
void remember_error(const char* text) noexcept;

/// The wall between C and the library: no exception gets out.
template <typename Body>
vmart_status at_boundary(Body&& body) noexcept try {
  body();
  return VMART_OK;
} catch (const Error& error) {
  remember_error(error.what());
  return to_status(error.kind());
} catch (const std::exception& error) {
  remember_error(error.what());
  return VMART_INTERNAL;
} catch (...) {
  remember_error("an exception of an unknown type was thrown");
  return VMART_INTERNAL;
}

}  // namespace vma
