#pragma once

#include <vma/error.hpp>

#include <new>
#include <optional>
#include <string>
#include <utility>

namespace vma {

/// If the process has almost as many mappings as the kernel allows (vm.max_map_count): their
/// number, and what to do about it. `mmap` and `new` then fail even though there is memory. Reads
/// /proc, which takes milliseconds. Throws: std::bad_alloc.
std::optional<std::string> mapping_limit_reached();

/// Returns the result of `body`. Throws: Error{out_of_memory} that names the limit if `body` runs
/// out of memory because of the number of mappings; otherwise whatever `body` throws. Only for
/// whole calls: not while work is stopped or the turn for slow calls is held, because reading /proc
/// takes long; and not around code that makes room and retries, which would mistake the limit for a
/// full place.
template <typename Body>
auto naming_mapping_limit(const char* call, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    if (const auto reached = mapping_limit_reached())
      throw Error(ErrorKind::out_of_memory, call, *reached);
    throw;
  } catch (const Error& error) {
    // The driver reported it, but does not know about the limit either.
    if (error.kind() != ErrorKind::out_of_memory || error.native() == 0) throw;
    const auto reached = mapping_limit_reached();
    if (!reached) throw;
    throw Error(error.kind(), call, *reached, error.native());
  }
}

}  // namespace vma
