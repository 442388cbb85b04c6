#pragma once

#include <vma/error.hpp>

#include <new>
#include <optional>
#include <string>
#include <utility>

namespace vma {

/// Where the process has about as many mappings as the kernel allows it (vm.max_map_count): how
/// many, and what to do. Then `mmap` and `new` fail though there is memory. Reads /proc, which
/// takes milliseconds. Throws: std::bad_alloc.
std::optional<std::string> mapping_limit_reached();

/// Returns what `body` does. Where that runs out of memory and the number of mappings is the
/// cause, throws Error{out_of_memory} that says so. Throws else: what `body` does. For calls as a
/// whole: not while work is stopped or the turn for slow calls is held, since reading /proc takes
/// long, and not around what makes room and tries again, which would take the limit for a full
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
    // Of the driver, which knows as little.
    if (error.kind() != ErrorKind::out_of_memory || error.native() == 0) throw;
    const auto reached = mapping_limit_reached();
    if (!reached) throw;
    throw Error(error.kind(), call, *reached, error.native());
  }
}

}  // namespace vma
