#pragma once

#include <vma/error.hpp>

#include <new>
#include <optional>
#include <string>
#include <utility>

namespace vma {

/// If the process has about as many mappings as the kernel allows (vm.max_map_count): the number,
/// and what to do. Then `mmap` and `new` fail though there is memory. Reads /proc, which takes
/// milliseconds. Throws: std::bad_alloc.
std::optional<std::string> mapping_limit_reached();

/// Returns what `body` does. If that runs out of memory because of the number of mappings, throws
/// Error{out_of_memory} that says so. Throws: otherwise what `body` throws. Only for calls as a
/// whole: not while work is stopped or the turn for slow calls is held, since reading /proc takes
/// long, and not around code that makes room and retries, which would mistake the limit for a full
/// place.
template <typename Body>
auto naming_mapping_limit(const char* call, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    if (const auto reached = mapping_limit_reached())
      throw Error(ErrorKind::out_of_memory, call, *reached);
    throw;
  } catch (const Error& error) {
    // From the driver, which does not know the limit either.
    if (error.kind() != ErrorKind::out_of_memory || error.native() == 0) throw;
    const auto reached = mapping_limit_reached();
    if (!reached) throw;
    throw Error(error.kind(), call, *reached, error.native());
  }
}

}  // namespace vma
