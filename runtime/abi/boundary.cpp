#include "abi/boundary.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace vma {
namespace {

// Allocated in advance: reporting an error must not fail for lack of memory.
constexpr std::size_t error_bytes_max = 1024;
thread_local std::array<char, error_bytes_max> last_error{};

}  // namespace

vmart_status to_status(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::invalid_argument: return VMART_INVALID_ARGUMENT;
    case ErrorKind::unknown_pointer: return VMART_UNKNOWN_POINTER;
    case ErrorKind::unreachable: return VMART_UNREACHABLE;
    case ErrorKind::out_of_memory: return VMART_OUT_OF_MEMORY;
    case ErrorKind::busy: return VMART_BUSY;
    case ErrorKind::pinned: return VMART_PINNED;
    case ErrorKind::cancelled: return VMART_CANCELLED;
    case ErrorKind::poisoned: return VMART_POISONED;
    case ErrorKind::no_driver: return VMART_NO_DRIVER;
    case ErrorKind::driver_gone: return VMART_DRIVER_GONE;
    case ErrorKind::driver_failure: return VMART_DRIVER_FAILURE;
    case ErrorKind::unsupported: return VMART_UNSUPPORTED;
    case ErrorKind::dropped: return VMART_DROPPED;
    case ErrorKind::peer_failure: return VMART_PEER_FAILURE;
    case ErrorKind::not_permitted: return VMART_NOT_PERMITTED;
  }
  return VMART_INTERNAL;
}

Place to_place(vmart_place place, const char* call) {
  switch (place.kind) {
    case VMART_GPU: return gpu(place.ordinal);
    case VMART_HOST: return host(place.ordinal);
  }
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("place.kind is {}; set it to VMART_GPU or VMART_HOST", place.kind));
}

vmart_place to_c(Place place) noexcept {
  return {place.kind == Place::Kind::gpu ? VMART_GPU : VMART_HOST, place.ordinal};
}

void require_argument(const void* argument, const char* call, const char* name) {
  if (argument != nullptr) return;
  throw Error(ErrorKind::invalid_argument, call, fmt::format("{} is null", name));
}

void remember_error(const char* text) noexcept {
  std::strncpy(last_error.data(), text, last_error.size() - 1);  // The last byte remains 0.
}

}  // namespace vma

const char* vmart_version(void) {
  return VMART_VERSION;
}

const char* vmart_last_error(void) {
  return vma::last_error.data();
}
