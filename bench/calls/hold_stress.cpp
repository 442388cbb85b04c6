// A thousand synchronous migrations beside threads that launch, allocate, free and synchronise on
// other memory. No move may hang: an alarm ends the program if one takes too long. Moves that the
// runtime gave up as `busy` are counted. The bytes are checked at the end.

#include "bench/harness/hang_alarm.hpp"
#include "bench/harness/machine.hpp"
#include "bench/harness/own_load.hpp"
#include "bench/harness/samples.hpp"
#include "bench/rivals/foreign_load.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

std::vector<std::byte> pattern_of(std::size_t bytes) {
  std::vector<std::byte> pattern(bytes);
  std::uint64_t state = 0x9E3779B97F4A7C15u;
  for (std::byte& value : pattern) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    value = static_cast<std::byte>(state);
  }
  return pattern;
}

struct Tally {
  int busy = 0;
  std::vector<std::chrono::nanoseconds> wall, stall;
};

/// Moves back and forth until `moves` attempts were made and one succeeded, or time is up.
Tally move_to_and_fro(Runtime& runtime, void* pointer, const Route& route, int moves,
                      HangAlarm& hang_alarm) {
  const std::chrono::seconds limit(setting("VMART_BENCH_STRESS_SECONDS", 80));
  const Stopwatch total;
  Tally tally;
  bool at_source = true;
  for (int move = 0; (move < moves || tally.wall.empty()) && total.elapsed() < limit; ++move) {
    hang_alarm.feed();
    const Stopwatch watch;
    try {
      const MigrationReport report =
          runtime.migrate(pointer, at_source ? route.second : route.first);
      tally.wall.push_back(watch.elapsed());
      tally.stall.push_back(report.stall.max);
      at_source = !at_source;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::busy) throw;
      ++tally.busy;
    }
  }
  return tally;
}

Sample stress(std::uint64_t bytes, int moves) {
  Runtime& runtime = shared_runtime();
  const std::vector<Route> routes = gpu_routes(runtime);
  const Route route = routes.empty() ? host_routes(runtime).front() : routes.front();
  void* const pointer = runtime.alloc(bytes, route.first);
  const std::vector<std::byte> pattern = pattern_of(bytes);
  runtime.write(pointer, pattern);

  HangAlarm hang_alarm;
  Sample sample;
  OwnLoad own(runtime);
  const bool simulated = runtime.description().find("simulated") != std::string::npos;
  ForeignLoad foreign(simulated ? 0 : static_cast<int>(gpus_of(runtime).size()));
  const Tally tally = move_to_and_fro(runtime, pointer, route, moves, hang_alarm);
  hang_alarm.feed();
  foreign.stop(sample);
  own.stop();
  hang_alarm.feed();
  std::vector<std::byte> found(bytes);
  runtime.read(pointer, found);
  runtime.free(pointer);
  if (found != pattern) throw std::runtime_error("the bytes are not those that were written");
  if (tally.wall.empty()) throw std::runtime_error("every move ended in `busy`");

  sample.wall = median_of(tally.wall);
  sample.counters["launches"] = static_cast<double>(own.launches());
  sample.counters["moves"] = static_cast<double>(tally.wall.size());
  sample.counters["busy"] = tally.busy;
  add_percentiles(sample, "wall", tally.wall);
  add_percentiles(sample, "stall", tally.stall);
  return sample;
}

void register_all() {
  const std::uint64_t bytes = sizes_up_to_max({64 * mebibyte}).front();
  const int moves = static_cast<int>(setting("VMART_BENCH_MOVES", 1000));
  shared_runtime();
  register_samples(
      "hold_stress/" + size_label(bytes), [bytes, moves] { return stress(bytes, moves); }, 1);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_on_shared_runtime(argc, argv, vma::register_all);
}
