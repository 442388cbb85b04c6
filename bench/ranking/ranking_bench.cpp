// Plays a trace of the placement lab on the machine, with one policy, and prints the result as one
// line of JSON. `bench/ranking/ranking.py` compares it with replays of the same trace.
//
//     ranking_bench TRACE --policy counter:theta=2 --hbm 8 --chunk 64
//
// VMART_DRIVER selects the machine, VMART_DEVICES its GPUs.

#include "base/units.hpp"
#include "bench/ranking/trace_player.hpp"
#include "lab/policies/lab_policies.hpp"
#include "lab/trace/trace_files.hpp"

#include <vma/error.hpp>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <exception>
#include <string>

namespace vma {
namespace {

struct Flags {
  std::string trace, policy = "cost_benefit", router = "hash";
  double hbm_gib = 0, host_cache_gib = 1;
  double chunk_mib = 32, launch_mib = 256;
  int half_life_ms = 1000;
};

RuntimeOptions runtime_options(const Flags& flags) {
  RuntimeOptions options;
  options.policies = research_policies();
  options.policy = flags.policy;
  options.half_life = std::chrono::milliseconds(flags.half_life_ms);
  options.pressure_limit = std::chrono::milliseconds(500);  // As long as a replay waits for room.
  if (flags.hbm_gib > 0) {
    options.cache_bytes_per_gpu =
        static_cast<std::size_t>(flags.hbm_gib * static_cast<double>(GiB));
  }
  options.host_cache_bytes =
      static_cast<std::size_t>(flags.host_cache_gib * static_cast<double>(GiB));
  return options;
}

PlayOptions play_options(const Flags& flags) {
  PlayOptions options;
  options.chunk_bytes = static_cast<std::uint64_t>(flags.chunk_mib * static_cast<double>(MiB));
  options.launch_bytes = static_cast<std::uint64_t>(flags.launch_mib * static_cast<double>(MiB));
  options.hbm_bytes = static_cast<std::uint64_t>(flags.hbm_gib * static_cast<double>(GiB));
  return options;
}

boost::json::object to_json(const DurationSummary& times) {
  return {{"count", times.count},
          {"median_ns", times.median.count()},
          {"p99_ns", times.p99.count()},
          {"max_ns", times.max.count()}};
}

boost::json::object to_json(const PlayReport& report) {
  boost::json::array devices, marks;
  std::uint64_t accesses = 0, launches = 0, bytes = 0;
  for (const DeviceTally& device : report.devices) {
    accesses += device.accesses;
    launches += device.launches;
    bytes += device.bytes;
    devices.push_back(boost::json::object{
        {"accesses", device.accesses}, {"launches", device.launches}, {"bytes", device.bytes}});
  }
  for (const auto& [seconds, text] : report.marks)
    marks.push_back(boost::json::object{{"at_s", seconds}, {"text", text}});
  return {{"seconds", report.seconds},
          {"events", report.events},
          {"accesses", accesses},
          {"launches", launches},
          {"bytes", bytes},
          {"allocations", report.allocations},
          {"steps", report.steps},
          {"spilled", report.spilled},
          {"alloc_s", report.alloc_s},
          {"devices", devices},
          {"marks", marks}};
}

/// The result of moves since `before`. Durations include the first move off each GPU, made by
/// `rehearse_moves`.
void add_runtime(const Runtime& runtime, const RuntimeStats& before, boost::json::object& json) {
  const RuntimeStats stats = runtime.stats();
  const SchedulerStats scheduler = runtime.scheduler_stats();
  json["machine"] = runtime.description();
  json["bytes_moved"] = stats.bytes_moved - before.bytes_moved;
  json["gates"] = stats.gates - before.gates;
  json["gates_given_up"] = stats.gates_given_up - before.gates_given_up;
  json["stall"] = to_json(stats.stall);
  json["skew"] = to_json(stats.skew);
  json["moves_wanted"] = scheduler.moves_wanted;
  json["moves"] = scheduler.moves_done;
  json["moves_failed"] = scheduler.moves_failed;
  boost::json::object refused;
  for (const auto& [reason, count] : scheduler.moves_refused) refused[reason] = count;
  json["moves_refused"] = refused;
  json["policy_failures"] = scheduler.policy_failures;
  json["ticks"] = scheduler.ticks;
  json["ticks_late"] = scheduler.ticks_late;
  json["uses_lost"] = scheduler.uses_lost;
}

int play(const Flags& flags) {
  PlayOptions options = play_options(flags);
  if (options.hbm_bytes > 0) options.peak_bytes = audit_trace(flags.trace).bytes_live_max();
  const auto trace = open_trace(flags.trace, 0);
  Runtime runtime(runtime_options(flags));
  TracePlayer player(runtime, options, flags.router);
  const RuntimeStats before = runtime.stats();
  boost::json::object json = to_json(player.play(*trace));
  add_runtime(runtime, before, json);
  json["inputs"] = boost::json::object{{"trace", flags.trace},
                                       {"policy", flags.policy},
                                       {"router", flags.router},
                                       {"hbm_gib", flags.hbm_gib},
                                       {"chunk_mib", flags.chunk_mib},
                                       {"launch_mib", flags.launch_mib},
                                       {"half_life_ms", flags.half_life_ms}};
  fmt::print("{}\n", boost::json::serialize(json));
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Plays a trace of the placement lab on the machine.", "ranking_bench");
  Flags flags;
  app.add_option("trace", flags.trace)->required();
  app.add_option("--policy", flags.policy, "as VMART_POLICY has it")->capture_default_str();
  app.add_option("--router", flags.router, "round_robin or hash")->capture_default_str();
  app.add_option("--hbm", flags.hbm_gib, "GiB of each GPU that objects may have; 0: all")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--host-cache", flags.host_cache_gib, "GiB kept for reuse at each host node")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--chunk", flags.chunk_mib, "MiB, where the trace does not say")
      ->check(CLI::Range(0.001, 256.0))
      ->capture_default_str();
  app.add_option("--launch", flags.launch_mib, "MiB that a launch reads at most")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--half-life", flags.half_life_ms, "ms after which a use counts half")
      ->check(CLI::Range(1, 86'400'000))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // Handles --help as well.
  }
  return play(flags);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) try {
  return vma::run(argc, argv);
} catch (const std::exception& error) {
  fmt::print(stderr, "ranking_bench: {}\n", error.what());
  return 1;
}
