#include "bench/harness/raw_copies.hpp"

#include "runtime/runtime_parts.hpp"

#include <algorithm>

namespace vma {
namespace {

constexpr std::uint64_t buffer_bytes_max = std::uint64_t{1} << 30;
constexpr int copy_rounds = 5;

struct CopyWay {
  void* source;
  void* target;
  Stream stream;
};

double round_gb_s(Runtime& runtime, const std::vector<CopyWay>& ways, std::uint64_t bytes,
                  std::uint64_t buffer_bytes) {
  RuntimeParts& parts = parts_of(runtime);
  Clock& clock = parts.driver->clock();
  const TimePoint start = clock.now();
  std::uint64_t copied = 0;
  while (copied < bytes) {
    for (const CopyWay& way : ways) {
      parts.driver->copy(parts.machinery->launcher.bind(way.stream), address_of(way.target),
                         address_of(way.source), buffer_bytes);
      copied += buffer_bytes;
    }
  }
  for (const CopyWay& way : ways) runtime.synchronize(way.stream);
  const auto took = static_cast<double>((clock.now() - start).count());
  return took > 0 ? static_cast<double>(copied) / took : 0;
}

}  // namespace

double raw_copy_gb_s(Runtime& runtime, Place from, const std::vector<Place>& targets,
                     std::uint64_t bytes) {
  const std::uint64_t buffer_bytes = std::min(bytes / targets.size(), buffer_bytes_max) / 8 * 8;
  AllocOptions options;
  options.movable = false;
  std::vector<CopyWay> ways;
  for (const Place& to : targets) {
    ways.push_back({runtime.alloc(buffer_bytes, from, options),
                    runtime.alloc(buffer_bytes, to, options),
                    runtime.make_stream(from.kind == Place::Kind::gpu ? from : to)});
  }
  round_gb_s(runtime, ways, buffer_bytes, buffer_bytes);  // The first copies set up the route.
  std::vector<double> rates;
  for (int round = 0; round < copy_rounds; ++round) {
    rates.push_back(round_gb_s(runtime, ways, bytes, buffer_bytes));
  }
  for (const CopyWay& way : ways) {
    runtime.destroy_stream(way.stream);
    runtime.free(way.source);
    runtime.free(way.target);
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

}  // namespace vma
