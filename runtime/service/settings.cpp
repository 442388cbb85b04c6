#include "service/settings.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "service/control_socket.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace vma {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

[[noreturn]] void refuse(const std::string& what, const std::string& text, const char* wanted) {
  throw Error(ErrorKind::invalid_argument, "vma::Runtime",
              fmt::format("{} is \"{}\"; it takes {}", what, text, wanted));
}

/// An empty part is a part too, so that a comma too many is seen.
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

std::uint64_t parse_number(const std::string& text, const std::string& what, const char* wanted) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) refuse(what, text, wanted);
  return number;
}

std::vector<int> parse_devices(const std::string& text) {
  std::vector<int> devices;
  for (const std::string& part : split(text)) {
    int device = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), device);
    if (error != std::errc() || end != part.data() + part.size() || device < 0) {
      refuse("VMART_DEVICES", text, "GPU ordinals with commas between");
    }
    devices.push_back(device);
  }
  return devices;
}

std::map<Location, std::uint64_t> parse_capacities(const std::string& text) {
  constexpr const char* name = "VMART_CAPACITY";
  std::map<Location, std::uint64_t> capacities;
  for (const std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    try {
      const Location at = parse_location(part.substr(0, equals));
      const std::uint64_t bytes =
          parse_size(equals == std::string::npos ? "" : part.substr(equals + 1), name);
      if (capacities.emplace(at, bytes).second) continue;
    } catch (const Error&) {
      refuse(name, text, "entries such as gpu0=4GiB with commas between");
    }
    refuse(name, text, "each location once");
  }
  return capacities;
}

std::uint64_t size_setting(const std::optional<std::size_t>& option, const char* name,
                           std::uint64_t otherwise) {
  if (option) return *option;
  const auto text = variable(name);
  return text ? parse_size(*text, name) : otherwise;
}

}  // namespace

std::uint64_t parse_size(const std::string& text, const std::string& what) {
  constexpr const char* wanted = "a number of bytes, or one with K, M, G, T (KiB, MiB, ...)";
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const std::string_view suffix = std::string_view(text).substr(digits);
  constexpr std::string_view letters = "KMGT";
  int power = 0;
  if (!suffix.empty() && suffix != "B") {
    const std::size_t letter = letters.find(suffix.front());
    const std::string_view rest = suffix.substr(1);
    if (letter == std::string_view::npos || !(rest.empty() || rest == "iB"))
      refuse(what, text, wanted);
    power = static_cast<int>(letter) + 1;
  }
  if (digits == 0) refuse(what, text, wanted);
  const std::uint64_t number = parse_number(text.substr(0, digits), what, wanted);
  if (power > 0 && number > (UINT64_MAX >> (10 * power))) refuse(what, text, "less than 16 EiB");
  return number << (10 * power);
}

namespace {

/// From the option, else from the variable, else `otherwise`. Throws where it is not within
/// [least, most].
std::uint64_t number_setting(std::optional<std::int64_t> option, const char* name,
                             const char* field, const char* unit, std::uint64_t least,
                             std::uint64_t most, std::uint64_t otherwise) {
  const auto text = variable(name);
  if (!option && !text) return otherwise;
  const std::string wanted = fmt::format("{}, at least {} and at most {}", unit, least, most);
  if (!option) {
    const std::uint64_t number = parse_number(*text, name, wanted.c_str());
    if (number < least || number > most) refuse(name, *text, wanted.c_str());
    return number;
  }
  if (*option < 0 || static_cast<std::uint64_t>(*option) < least ||
      static_cast<std::uint64_t>(*option) > most) {
    throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                fmt::format("{} is {}; it takes {}", field, *option, wanted));
  }
  return static_cast<std::uint64_t>(*option);
}

template <typename Duration>
std::optional<std::int64_t> count_of(const std::optional<Duration>& duration) {
  if (!duration) return std::nullopt;
  return duration->count();
}

void settle_limits(const RuntimeOptions& options, Settings& settings) {
  constexpr std::uint64_t second_us = 1'000'000;
  constexpr std::uint64_t day_ms = 86'400'000;
  constexpr std::uint64_t retries_max = 1'000;
  settings.hold_limit =
      std::chrono::milliseconds(number_setting(count_of(options.hold_limit), "VMART_HOLD_LIMIT_MS",
                                               "hold_limit", "milliseconds", 1, day_ms, 2'000));
  settings.gate_limit =
      std::chrono::microseconds(number_setting(count_of(options.gate_limit), "VMART_GATE_LIMIT_US",
                                               "gate_limit", "microseconds", 1, second_us, 5'000));
  settings.gate_retries = static_cast<int>(number_setting(
      options.gate_retries ? std::optional<std::int64_t>(*options.gate_retries) : std::nullopt,
      "VMART_GATE_RETRIES", "gate_retries", "a count", 0, retries_max, 8));
  // The variable takes 0 for no limit. In the option 0 would more likely mean "none at all", with
  // which nothing can move.
  settings.stall_budget = std::chrono::microseconds(number_setting(
      count_of(options.stall_budget), "VMART_STALL_BUDGET_US", "stall_budget",
      "microseconds of each second", options.stall_budget ? 1 : 0, second_us, 60'000));
  settings.pressure_limit = std::chrono::milliseconds(
      number_setting(count_of(options.pressure_limit), "VMART_PRESSURE_LIMIT_MS", "pressure_limit",
                     "milliseconds", 0, day_ms, 2'000));
  settings.copy_budget_bytes = size_setting(options.copy_budget_bytes, "VMART_COPY_BUDGET", 0);
  if (options.copy_budget_bytes && *options.copy_budget_bytes == 0) {
    throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                "copy_budget_bytes is 0: no move could be made; leave it unset for no limit");
  }
}

void settle_scheduler(const RuntimeOptions& options, Settings& settings) {
  constexpr std::uint64_t hour_us = 3'600'000'000;
  constexpr std::uint64_t day_ms = 86'400'000;
  settings.policy =
      !options.policy.empty() ? options.policy : variable("VMART_POLICY").value_or("");
  settings.policies = options.policies;
  settings.control =
      !options.control.empty() ? options.control : variable("VMART_CONTROL").value_or("");
  settings.trace = !options.trace.empty() ? options.trace : variable("VMART_TRACE").value_or("");
  const bool controlled = control_path(settings.control.c_str()).has_value();
  if (settings.policy.empty() && (controlled || !settings.trace.empty())) {
    log(LogLevel::info, "no policy is named: stay_put decides, for VMART_CONTROL or VMART_TRACE");
    settings.policy = "stay_put";
  }
  settings.nvml = variable("VMART_NVML").value_or("auto");
  if (settings.nvml == "1") settings.nvml = "auto";  // As VMART_CONTROL and VMART_NVTX have it.
  if (settings.nvml == "0") settings.nvml.clear();
  settings.record = variable("VMART_RECORD").value_or("");
  settings.decisions = variable("VMART_DECISIONS").value_or("");
  settings.tick = std::chrono::microseconds(number_setting(
      count_of(options.tick), "VMART_TICK_US", "tick", "microseconds", 100, hour_us, 10'000));
  settings.half_life =
      std::chrono::milliseconds(number_setting(count_of(options.half_life), "VMART_HALF_LIFE_MS",
                                               "half_life", "milliseconds", 1, day_ms, 1'000));
  settings.policy_limit = std::chrono::milliseconds(number_setting(
      std::nullopt, "VMART_POLICY_LIMIT_MS", "policy_limit", "milliseconds", 1, day_ms, 500));
  settings.dry_run = options.dry_run;
  if (!settings.dry_run) {
    settings.dry_run =
        number_setting(std::nullopt, "VMART_DRY_RUN", "dry_run", "0 or 1", 0, 1, 0) == 1;
  }
}

}  // namespace

Settings settle(const RuntimeOptions& options) {
  Settings settings;
  settings.driver =
      !options.driver.empty() ? options.driver : variable("VMART_DRIVER").value_or("cuda");
  settings.devices = options.devices;
  if (settings.devices.empty()) {
    if (const auto text = variable("VMART_DEVICES")) settings.devices = parse_devices(*text);
  }
  for (const auto& [at, bytes] : options.capacity_bytes) settings.capacity_bytes[at] = bytes;
  if (settings.capacity_bytes.empty()) {
    if (const auto text = variable("VMART_CAPACITY"))
      settings.capacity_bytes = parse_capacities(*text);
  }
  settings.cache_bytes_per_gpu =
      size_setting(options.cache_bytes_per_gpu, "VMART_CACHE_BYTES_PER_GPU", 512 * MiB);
  settings.host_cache_bytes = size_setting(options.host_cache_bytes, "VMART_HOST_CACHE_BYTES", GiB);
  settings.calibration = variable("VMART_CALIBRATION").value_or("auto");
  settle_limits(options, settings);
  settle_scheduler(options, settings);
  return settings;
}

}  // namespace vma
