#include "tools/vmart/vmart_commands.hpp"

#include "base/printable.hpp"
#include "base/units.hpp"
#include "tools/vmart/control_text.hpp"

#include <vma/runtime.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

void print_demo_extents(const std::byte* begin, const std::vector<Extent>& extents) {
  fmt::print("  {:<18} {:>12} {:>12}  {:<10} {:>5}\n", "address", "offset MiB", "MiB", "lies at",
             "moves");
  for (const Extent& extent : extents) {
    fmt::print("  {:<18} {:>12} {:>12}  {:<10} {:>5}\n", fmt::ptr(begin + extent.offset),
               extent.offset / MiB, extent.bytes / MiB, place_name(extent.at), extent.generation);
  }
}

json::array extents_json(const std::vector<Extent>& extents) {
  json::array list;
  for (const Extent& extent : extents) {
    list.push_back(json::object{{"offset_bytes", extent.offset},
                                {"bytes", extent.bytes},
                                {"at", to_string(extent.at)},
                                {"moves", extent.generation}});
  }
  return list;
}

}  // namespace

int run_demo(const DemoOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.driver = options.driver;
  Runtime runtime(runtime_options);
  const std::vector<Place> places = runtime.places();
  const std::size_t bytes = static_cast<std::size_t>(options.mib) * MiB;
  constexpr std::size_t chunk_bytes = 2 * MiB;
  const std::size_t quarter = bytes / 4 / chunk_bytes * chunk_bytes;  // Only whole chunks move.
  auto* begin = static_cast<std::byte*>(
      runtime.alloc(bytes, places.front(), {.chunk_bytes = chunk_bytes, .tag = "demo"}));
  const std::vector<Extent> before = runtime.where(begin);
  const bool moves = places.size() > 1;
  if (!options.json) {
    fmt::print("{}\n\"demo\", {} MiB allocated by this command\n", runtime.description(),
               options.mib);
    print_demo_extents(begin, before);
  }
  if (moves) runtime.migrate(begin, quarter, 2 * quarter, places[1]);
  // Any address inside the allocation works.
  const std::vector<Extent> after = runtime.where(begin + quarter);
  if (options.json) {
    print_json(json::object{{"machine", runtime.description()},
                            {"address", fmt::format("{}", fmt::ptr(begin))},
                            {"bytes", bytes},
                            {"before", extents_json(before)},
                            {"after", extents_json(after)}});
  } else if (moves) {
    fmt::print("after its middle moved to {}\n", place_name(places[1]));
    print_demo_extents(begin, after);
  }
  runtime.free(begin);
  return 0;
}

}  // namespace vma
