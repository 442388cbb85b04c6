// How long attached streams are stopped for a chunk that moves to host memory, and for one that
// moves back; of a small one, one move after another and after a rest.

#include "bench/live/cases.hpp"
#include "bench/harness/machine.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace vma {
namespace {

Sample to_host_and_back(std::uint64_t bytes, std::chrono::milliseconds rest) {
  Runtime& runtime = live_runtime();
  const Route route = host_routes(runtime).front();
  MovedRange range(runtime, route.first, bytes);
  range.reserve(route.second);
  WriterSpec spec = few_writes(range, 4, std::chrono::microseconds(20));
  spec.own_words = true;
  Writers writers(runtime, spec);
  move_to_and_fro(range, route.first, route.second, {}, 4, case_seconds());

  MoveTally to_host, from_host;
  const int moves = static_cast<int>(setting("VMART_BENCH_MOVES", 1000));
  const Stopwatch watch;
  while (to_host.tried() < 2 || (to_host.tried() + from_host.tried() < moves &&
                                 to_us(watch.elapsed()) < case_seconds() * 1e6)) {
    spin_for(rest);
    const bool at_gpu = range.place() == route.first;
    range.move(at_gpu ? route.second : route.first, {}, at_gpu ? to_host : from_host);
  }
  range.check(writers.stop());

  Sample sample;
  // If every move to the host was refused as busy, there was nothing to move back.
  if (from_host.tried() > 0) from_host.add_to(sample, "from_host_");
  to_host.add_to(sample, "to_host_");
  return sample;
}

}  // namespace

void register_host_cases() {
  const std::uint64_t bytes = sizes_up_to_max({32 * mebibyte}).front();
  register_samples(
      "live/host/" + size_label(bytes),
      [bytes] { return to_host_and_back(bytes, std::chrono::milliseconds(0)); }, 1);
  // Of a small chunk, the switch is most of the stall.
  for (const std::chrono::milliseconds rest :
       {std::chrono::milliseconds(0), std::chrono::milliseconds(60)}) {
    register_samples(
        "live/host_rested" + std::to_string(rest.count()) + "ms/2MiB",
        [rest] { return to_host_and_back(2 * mebibyte, rest); }, 1);
  }
}

}  // namespace vma
