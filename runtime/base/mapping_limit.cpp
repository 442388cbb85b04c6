#include "base/mapping_limit.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace vma {
namespace {

/// Calls `body(text, size)` for each part of a file. Allocates no memory and creates no mapping.
template <typename Body>
bool read_parts(const char* path, Body&& body) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char part[16 * 1024];
  ssize_t size = 0;
  while ((size = read(file, part, sizeof part)) > 0) body(part, static_cast<std::size_t>(size));
  close(file);
  return size == 0;
}

}  // namespace

std::optional<std::string> mapping_limit_reached() {
  // One call creates a few mappings, and may have removed them by now.
  constexpr std::size_t near = 64;
  std::size_t limit = 0, mappings = 0;
  const bool read = read_parts("/proc/sys/vm/max_map_count",
                               [&](const char* text, std::size_t size) {
                                 std::from_chars(text, text + size, limit);
                               }) &&
                    read_parts("/proc/self/maps", [&](const char* text, std::size_t size) {
                      mappings += static_cast<std::size_t>(std::count(text, text + size, '\n'));
                    });
  if (!read || limit == 0 || mappings + near < limit) return std::nullopt;
  return fmt::format(
      "the process has {} memory mappings, and vm.max_map_count allows {}; raise it (sysctl -w "
      "vm.max_map_count={}), or make fewer and larger allocations or chunks",
      mappings, limit, 4 * limit);
}

}  // namespace vma
