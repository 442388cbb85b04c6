#include "lab/experiments/single_replay.hpp"

#include "base/units.hpp"
#include "costs/calibration_file.hpp"
#include "lab/fidelity/recorded_machine.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "lab/trace/trace_files.hpp"
#include "machine/machine_file.hpp"
#include "scheduling/policy_library.hpp"

#include <vma/error.hpp>

#include <boost/json/value_from.hpp>
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace vma {
namespace {

constexpr std::string_view call = "vmart-lab replay";

Time time_of(double ms, double least, double most, std::string_view option) {
  return milliseconds_of(ms, least, most, option, call);
}

/// Has the same effect as `VMART_HALF_LIFE_MS`.
void set_half_life(HeatLimits& heat, double ms) {
  heat.half_life_short = time_of(ms, 1, 86'400'000, "--half-life");
  heat.half_life_long = heat.half_life_short * 10;
}

double share_of(double share, std::string_view option) {
  if (share >= 0 && share <= 1) return share;
  throw Error(ErrorKind::invalid_argument, std::string(call),
              fmt::format("{} {} is not between 0 and 1", option, share));
}

ReplayOptions options_of(const ReplaySetting& setting) {
  ReplayOptions options;
  options.pacing = parse_pacing(setting.pacing);
  options.chunk_bytes = bytes_of(setting.chunk_mib, MiB, "--chunk");
  if (setting.half_life_ms) set_half_life(options.scheduler.heat, *setting.half_life_ms);
  options.stall_budget = time_of(setting.stall_budget_ms, 0, 1000, "--stall-budget");
  options.scheduler.planner.stall_ahead =
      time_of(setting.stall_ahead_ms, 0, 86'400'000, "--stall-ahead");
  options.scheduler.pace.watches = !setting.no_pace_guard;
  options.scheduler.ends_it = setting.ends_it;
  options.use_interval = time_of(setting.use_interval_ms, 0.01, 86'400'000, "--use-interval");
  options.told_uses = parse_told_uses(setting.uses);
  options.unseen = share_of(setting.unseen, "--unseen");
  if (options.unseen > 0 && options.told_uses == ToldUses::exact)
    throw Error(ErrorKind::invalid_argument, std::string(call),
                "--unseen needs --uses launches or base_pointers");
  options.admission = parse_admission(setting.admission);
  options.admission_memory = parse_admission_memory(setting.admission_memory);
  options.ahead = time_of(setting.ahead_ms, 0, 1000, "--ahead");
  return options;
}

ReplayMachine machine_of(const ReplaySetting& setting, std::uint64_t chunk_bytes) {
  ReplayMachine machine = replay_machine(load_machine(setting.machine));
  if (!setting.calibration.empty())
    machine = calibrated_machine(std::move(machine), read_calibration(setting.calibration));
  cap_places(machine, {setting.hbm_gib, setting.host_gib});
  if (setting.hbm_share) {
    const double share = *setting.hbm_share;
    if (!(share >= hbm_share_min && share <= hbm_share_max)) {
      throw Error(ErrorKind::invalid_argument, std::string(call),
                  fmt::format("--hbm-share {} is not between {} and {}", share, hbm_share_min,
                              hbm_share_max));
    }
    if (setting.hbm_gib) {
      throw Error(ErrorKind::invalid_argument, std::string(call),
                  "--hbm-share cannot be combined with --hbm");
    }
    share_hbm(
        machine, share,
        setting.room ? *setting.room : audit_trace(setting.trace, setting.bad_lines_max).room(),
        chunk_bytes);
  }
  return machine;
}

/// Runs the replay; its errors name the trace file.
ReplayReport run(Replay& replay, TraceSource& trace, const std::string& path) {
  try {
    return replay.run(trace);
  } catch (const Error& error) {
    if (error.call() != "Replay::run") throw;
    throw Error(error.kind(), std::string(call), fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace

SingleReplay replay_trace(const ReplaySetting& setting, const PolicyRegistry& policies,
                          std::function<void()> at_tick) {
  ReplayOptions options = options_of(setting);
  options.at_tick = std::move(at_tick);
  const RequestLimits limits = request_limits(setting.slo_first_ms, setting.slo_step_ms, call);
  SingleReplay result{
      setting, machine_of(setting, options.chunk_bytes), {}, {}, options.chunk_bytes, 0, {}};
  stop_by(parse_stop(setting.stop), result.machine, options);
  const auto trace = open_trace(setting.trace, setting.bad_lines_max);
  Replay replay(result.machine, options, load_policy(setting.policy, policies),
                make_router(setting.router));
  result.report = run(replay, *trace, setting.trace);
  result.trace_name = trace->header().name;
  result.bad_lines = trace->bad_lines() == nullptr ? 0 : trace->bad_lines()->count();
  result.metrics = metrics_of(result.report, result.machine, limits);
  return result;
}

boost::json::object to_json(const SingleReplay& replay) {
  const ReplaySetting& setting = replay.setting;
  boost::json::object json = to_json(replay.report);
  json["metrics"] = to_json(replay.metrics);
  json["inputs"] =
      boost::json::object{{"trace", setting.trace},
                          {"trace_name", replay.trace_name},
                          {"machine", replay.machine.name},
                          {"policy", setting.policy},
                          {"router", setting.router},
                          {"pacing", setting.pacing},
                          {"admission", setting.admission},
                          {"admission_memory", setting.admission_memory},
                          {"slo_first_ms", boost::json::value_from(setting.slo_first_ms)},
                          {"slo_step_ms", boost::json::value_from(setting.slo_step_ms)},
                          {"chunk_bytes", replay.chunk_bytes},
                          {"hbm_gib", boost::json::value_from(setting.hbm_gib)},
                          {"hbm_share", boost::json::value_from(setting.hbm_share)},
                          {"host_gib", boost::json::value_from(setting.host_gib)},
                          {"half_life_ms", boost::json::value_from(setting.half_life_ms)},
                          {"calibration", setting.calibration},
                          {"stall_budget_ms", setting.stall_budget_ms},
                          {"stall_ahead_ms", setting.stall_ahead_ms},
                          {"no_pace_guard", setting.no_pace_guard},
                          {"use_interval_ms", setting.use_interval_ms},
                          {"uses", setting.uses},
                          {"unseen", setting.unseen},
                          {"stop", setting.stop},
                          {"ahead_ms", setting.ahead_ms},
                          {"bad_lines", replay.bad_lines}};
  return json;
}

}  // namespace vma
