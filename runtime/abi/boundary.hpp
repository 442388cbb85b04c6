#pragma once

#include <vma/error.hpp>
#include <vma/place.hpp>
#include <vma/pool.hpp>
#include <vma/vmart.h>

#include <cstddef>
#include <exception>

namespace vma {

vmart_status to_status(ErrorKind kind) noexcept;
/// Throws: Error{invalid_argument} for an invalid kind.
Place to_place(vmart_place place, const char* call);
vmart_place to_c(Place place) noexcept;

/// Throws: Error{invalid_argument} if the argument is null.
void require_argument(const void* argument, const char* call, const char* name);

/// Maximum size of a struct in any version; larger sizes are invalid.
inline constexpr std::size_t struct_bytes_max = 4096;

/// Stores the text that `vmart_last_error` returns on this thread. Truncates it if it is too long.
void remember_error(const char* text) noexcept;

/// The boundary between C and the library: no exception passes it.
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

struct vmart_pool {
  vma::Pool pool;
};
