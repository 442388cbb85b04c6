#include "runtime/settings.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "control/control_socket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

namespace vma {
namespace {

/// An empty part counts too, so that a superfluous comma is noticed.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t comma = text.find(','); comma != std::string::npos;
       comma = text.find(',', begin)) {
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<int> parse_devices(const std::string& text) {
  std::vector<int> devices;
  for (const std::string& part : split(text)) {
    int device = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), device);
    if (error != std::errc() || end != part.data() + part.size() || device < 0) {
      refuse_setting("VMART_DEVICES", text, environment_takes("VMART_DEVICES"));
    }
    devices.push_back(device);
  }
  return devices;
}

std::uint64_t size_setting(const std::optional<std::size_t>& option, const char* name,
                           std::uint64_t otherwise) {
  return option ? *option : environment_bytes(name).value_or(otherwise);
}

/// From the option, else from the variable, else `otherwise`. Throws if it is outside the
/// variable's limits or below `least`.
std::uint64_t number_setting(std::optional<std::int64_t> option, const char* name,
                             const char* field, std::uint64_t otherwise, std::int64_t least = 0) {
  if (!option) return environment_number(name).value_or(otherwise);
  const auto variables = environment_variables();
  const auto variable = std::ranges::find(variables, name, &EnvironmentVariable::name);
  least = std::max(least, static_cast<std::int64_t>(variable->least));
  if (*option < least || static_cast<std::uint64_t>(*option) > variable->most) {
    refuse_setting(
        field, std::to_string(*option),
        fmt::format("{}, at least {} and at most {}", variable->takes, least, variable->most));
  }
  return static_cast<std::uint64_t>(*option);
}

template <typename Duration>
std::optional<std::int64_t> count_of(const std::optional<Duration>& duration) {
  if (!duration) return std::nullopt;
  return duration->count();
}

/// The default limit up to which tries widen that of gates.
constexpr std::chrono::milliseconds widened_gate_limit(80);

ExportTypes parse_exportable(const std::string& text) {
  constexpr const char* name = "VMART_EXPORTABLE";
  if (const std::optional<bool> word = yes_or_no(text)) return {.descriptor = *word};
  ExportTypes types;
  for (const std::string& part : split(text)) {
    bool* const named = part == "fd"       ? &types.descriptor
                        : part == "rdma"   ? &types.rdma
                        : part == "fabric" ? &types.fabric
                                           : nullptr;
    if (named == nullptr || std::exchange(*named, true)) {
      refuse_setting(name, text, environment_takes(name));
    }
  }
  return types;
}

ExportTypes exportable_setting(const std::optional<Exportable>& option) {
  if (option) return {option->descriptor, option->fabric, option->rdma};
  return parse_exportable(environment_text("VMART_EXPORTABLE").value_or("0"));
}

bool suspends_by_environment() {
  constexpr const char* name = "VMART_STOP";
  const std::string text = environment_text(name).value_or("suspend");
  if (text != "gate" && text != "suspend") refuse_setting(name, text, environment_takes(name));
  // Nsight Compute plays each kernel alone and some ten times: those of the check would run for
  // minutes. It sets this variable in what it profiles, though no page of NVIDIA's says so.
  const bool profiled = environment_variable("NV_COMPUTE_PROFILER_PERFWORKS_DIR") != nullptr;
  return text == "suspend" && !profiled;
}

void settle_limits(const RuntimeOptions& options, Settings& settings) {
  settings.hold_limit = std::chrono::milliseconds(
      number_setting(count_of(options.hold_limit), "VMART_HOLD_LIMIT_MS", "hold_limit", 2'000));
  settings.gate_limit = std::chrono::microseconds(
      number_setting(count_of(options.gate_limit), "VMART_GATE_LIMIT_US", "gate_limit", 5'000));
  // A limit set by the program is the longest that streams may be stopped.
  const bool named = options.gate_limit || environment_number("VMART_GATE_LIMIT_US");
  settings.gate_limit_max = named ? settings.gate_limit : widened_gate_limit;
  settings.gate_retries = static_cast<int>(
      number_setting(options.gate_retries, "VMART_GATE_RETRIES", "gate_retries", 8));
  settings.copy_share_percent = static_cast<int>(
      number_setting(options.copy_share_percent, "VMART_COPY_SHARE", "copy_share_percent", 50));
  settings.max_stall = std::chrono::microseconds(
      number_setting(count_of(options.max_stall), "VMART_MAX_STALL_US", "max_stall", 5'500));
  // In the variable 0 means no limit. In the option 0 would more likely mean "no stalls at all",
  // with which nothing can move.
  settings.stall_budget = std::chrono::microseconds(number_setting(
      count_of(options.stall_budget), "VMART_STALL_BUDGET_US", "stall_budget", 60'000, 1));
  settings.stall_ahead = std::chrono::milliseconds(
      number_setting(count_of(options.stall_ahead), "VMART_STALL_AHEAD_MS", "stall_ahead", 4'000));
  settings.pace_guard =
      options.pace_guard.value_or(environment_flag("VMART_PACE_GUARD").value_or(true));
  settings.pressure_limit = std::chrono::milliseconds(number_setting(
      count_of(options.pressure_limit), "VMART_PRESSURE_LIMIT_MS", "pressure_limit", 2'000));
  settings.own_contexts =
      options.own_contexts || environment_flag("VMART_OWN_CONTEXTS").value_or(false);
  settings.suspends = suspends_by_environment() && options.suspend.value_or(true);
  settings.copy_guards = environment_flag("VMART_COPY_GUARDS").value_or(true);
  settings.copy_budget_bytes = size_setting(options.copy_budget_bytes, "VMART_COPY_BUDGET", 0);
  if (options.copy_budget_bytes && *options.copy_budget_bytes == 0) {
    throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                "copy_budget_bytes is 0, which allows no move; leave it unset for no limit");
  }
}

/// From the program's option. A name without a folder is accepted here; in the variable it would
/// most likely be a mistake, and is refused.
std::string control_option(const std::string& text) {
  const bool is_name = text.find('/') == std::string::npos && !yes_or_no(text);
  return is_name ? "./" + text : text;
}

std::string timeline_of_environment() {
  const std::string place = environment_place("VMART_TIMELINE").value_or("");
  return place == "auto" ? "vmart-%p.trace.json" : place;
}

/// The outputs of a runtime. All come from the scheduler, which needs a policy.
void settle_output(const RuntimeOptions& options, Settings& settings) {
  settings.control = !options.control.empty() ? control_option(options.control)
                                              : environment_place("VMART_CONTROL").value_or("");
  settings.control_libraries = environment_flag("VMART_CONTROL_LIBRARIES").value_or(false);
  settings.timeline = !options.timeline.empty() ? options.timeline : timeline_of_environment();
  settings.record = environment_path("VMART_RECORD").value_or("");
  settings.decisions = environment_path("VMART_DECISIONS").value_or("");
  const bool controlled = opens_control(settings.control);
  const bool written =
      !settings.timeline.empty() || !settings.record.empty() || !settings.decisions.empty();
  if (settings.policy.empty() && (controlled || written)) {
    log(LogLevel::info,
        "no policy is configured: using stay_put, which moves nothing, for VMART_CONTROL, "
        "VMART_TIMELINE, VMART_RECORD or VMART_DECISIONS");
    settings.policy = "stay_put";
  }
  settings.nvml = environment_text("VMART_NVML").value_or("auto");
  if (const auto word = yes_or_no(settings.nvml)) settings.nvml = *word ? "auto" : "";
}

void settle_scheduler(const RuntimeOptions& options, Settings& settings) {
  settings.policy =
      !options.policy.empty() ? options.policy : environment_text("VMART_POLICY").value_or("");
  settings.policies = options.policies;
  settings.tick = std::chrono::microseconds(
      number_setting(count_of(options.tick), "VMART_TICK_US", "tick", 10'000));
  settings.half_life = std::chrono::milliseconds(
      number_setting(count_of(options.half_life), "VMART_HALF_LIFE_MS", "half_life", 1'000));
  settings.policy_limit = std::chrono::milliseconds(
      number_setting(std::nullopt, "VMART_POLICY_LIMIT_MS", "policy_limit", 500));
  settings.dry_run = options.dry_run || environment_flag("VMART_DRY_RUN").value_or(false);
}

}  // namespace

Settings resolve_settings(const RuntimeOptions& options) {
  log_level();  // Reports a bad VMART_LOG now instead of with the first message.
  warn_of_unknown_variables();
  Settings settings;
  settings.driver =
      !options.driver.empty() ? options.driver : environment_text("VMART_DRIVER").value_or("cuda");
  settings.devices = options.devices;
  if (settings.devices.empty()) {
    if (const auto text = environment_text("VMART_DEVICES"))
      settings.devices = parse_devices(*text);
  }
  for (const auto& [at, bytes] : options.capacity_bytes) settings.capacity_bytes[at] = bytes;
  if (settings.capacity_bytes.empty()) {
    if (const auto text = environment_text("VMART_CAPACITY"))
      settings.capacity_bytes = parse_capacities(*text, "VMART_CAPACITY");
  }
  settings.cache_bytes_per_gpu =
      size_setting(options.cache_bytes_per_gpu, "VMART_CACHE_BYTES_PER_GPU", 512 * MiB);
  settings.host_cache_bytes = size_setting(options.host_cache_bytes, "VMART_HOST_CACHE_BYTES", GiB);
  settings.exportable = exportable_setting(options.exportable);
  settings.calibration = environment_text("VMART_CALIBRATION").value_or("auto");
  settle_limits(options, settings);
  settle_scheduler(options, settings);
  settle_output(options, settings);
  // Such a policy moves memory sooner or later.
  const bool moves =
      !settings.policy.empty() && !settings.policy.starts_with("stay_put") && !settings.dry_run;
  const std::optional<bool> wanted =
      options.prepare ? options.prepare : environment_flag("VMART_PREPARE");
  settings.prepares_gates = wanted.value_or(moves);
  settings.prepares_suspensions = wanted.value_or(moves || settings.policy.empty());
  return settings;
}

std::map<Place, std::uint64_t> parse_capacities(const std::string& text, const std::string& what) {
  std::map<Place, std::uint64_t> capacities;
  for (const std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    const std::string place = part.substr(0, equals);
    std::optional<Place> at;
    try {
      at = parse_place(place);
    } catch (const Error&) {
      refuse_setting(what, text,
                     fmt::format("a place such as gpu0 or host0 instead of \"{}\", as in "
                                 "gpu0=60GiB,gpu1=20GiB",
                                 place));
    }
    if (equals == std::string::npos || equals + 1 == part.size()) {
      refuse_setting(what, text, fmt::format("a size for {}, such as {}=60GiB", place, place));
    }
    const std::string size = part.substr(equals + 1);
    std::uint64_t bytes = 0;
    try {
      bytes = parse_size(size, what);
    } catch (const Error&) {
      refuse_setting(
          what, text,
          fmt::format("a size below 16 EiB for {}, such as 60GiB, instead of \"{}\"", place, size));
    }
    if (!capacities.emplace(*at, bytes).second) {
      refuse_setting(what, text, fmt::format("each place once, but {} is there twice", place));
    }
  }
  return capacities;
}

}  // namespace vma
