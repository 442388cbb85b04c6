#include "tools/where.hpp"

#include "base/units.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <vector>

namespace vma {
namespace {

void print_extents(const std::byte* begin, const std::vector<Extent>& extents) {
  fmt::print("  {:<18} {:>12} {:>12}  {:<10} {:>5}\n", "address", "offset MiB", "MiB", "lies at",
             "moves");
  for (const Extent& extent : extents) {
    fmt::print("  {:<18} {:>12} {:>12}  {:<10} {:>5}\n", fmt::ptr(begin + extent.offset),
               extent.offset / MiB, extent.bytes / MiB, to_string(extent.at), extent.generation);
  }
}

}  // namespace

int run_where(const WhereOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.driver = options.driver;
  Runtime runtime(runtime_options);
  const std::vector<Location> locations = runtime.locations();
  const std::size_t bytes = static_cast<std::size_t>(options.mib) * MiB;
  const std::size_t quarter = bytes / 4;
  auto* begin = static_cast<std::byte*>(
      runtime.alloc(bytes, locations.front(), {.chunk_bytes = 2 * MiB, .tag = "demo"}));
  fmt::print("{}\n\"demo\", {} MiB, as allocated\n", runtime.description(), options.mib);
  print_extents(begin, runtime.where(begin));
  if (locations.size() > 1) {
    runtime.migrate(begin, quarter, 2 * quarter, locations[1]);
    fmt::print("after its middle moved to {}\n", to_string(locations[1]));
    print_extents(begin, runtime.where(begin + quarter));  // Any address inside will do.
  }
  runtime.free(begin);
  return 0;
}

}  // namespace vma
