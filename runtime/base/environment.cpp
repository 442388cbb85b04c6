#include "base/environment.hpp"

#include "base/check.hpp"
#include "base/nearest_name.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <vector>

namespace vma {
namespace {

using Type = EnvironmentVariable::Type;
constexpr std::uint64_t day_ms = 86'400'000;
constexpr std::uint64_t second_us = 1'000'000;
constexpr std::uint64_t hour_us = 3'600'000'000;
constexpr std::uint64_t sim_bytes_max = 1ull << 44;
constexpr std::string_view bytes_words =
    "a number of bytes, or one with K, M, G, T (KiB, MiB, ...)";

// clang-format off
constexpr EnvironmentVariable variables[] = {
    {"VMART_DRIVER", Type::text, "cuda, sim:NAME or sim:FILE.json", "cuda"},
    {"VMART_DEVICES", Type::text, "GPU ordinals, separated by commas", "all"},
    {"VMART_CAPACITY", Type::text, "entries such as gpu0=4GiB, separated by commas", "the size of each place"},
    {"VMART_CACHE_BYTES_PER_GPU", Type::bytes, bytes_words, "512MiB"},
    {"VMART_HOST_CACHE_BYTES", Type::bytes, bytes_words, "1GiB"},
    {"VMART_HOLD_LIMIT_MS", Type::number, "milliseconds", "2000", 1, day_ms},
    {"VMART_STOP", Type::text, "gate or suspend", "suspend"},
    {"VMART_COPY_GUARDS", Type::flag, "1, yes, on, true or 0, no, off, false", "1"},
    {"VMART_GATE_LIMIT_US", Type::number, "microseconds", "5000, growing to 80000 if unset", 1, second_us},
    {"VMART_GATE_RETRIES", Type::number, "a count", "8", 0, 1000},
    {"VMART_COPY_SHARE", Type::number, "percent", "50", 1, 100},
    {"VMART_MAX_STALL_US", Type::number, "microseconds", "5500", 1, second_us},
    {"VMART_STALL_BUDGET_US", Type::number, "microseconds per second", "60000", 0, second_us},
    {"VMART_PACE_GUARD", Type::flag, "1, yes, on, true or 0, no, off, false", "1"},
    {"VMART_STALL_AHEAD_MS", Type::number, "milliseconds", "4000", 0, day_ms},
    {"VMART_COPY_BUDGET", Type::bytes, bytes_words, "0"},
    {"VMART_PRESSURE_LIMIT_MS", Type::number, "milliseconds", "2000", 0, day_ms},
    {"VMART_OWN_CONTEXTS", Type::flag, "1, yes, on, true or 0, no, off, false", "0"},
    {"VMART_EXPORTABLE", Type::text, "fd, or fd, rdma and fabric in a list, or 0", "0"},
    {"VMART_PREPARE", Type::flag, "1, yes, on, true or 0, no, off, false", "1 for suspensions without a policy, 1 with one that moves, else 0"},
    {"VMART_POLICY", Type::text, "a policy, as name:parameter=value,...", "none"},
    {"VMART_TICK_US", Type::number, "microseconds", "10000", 100, hour_us},
    {"VMART_HALF_LIFE_MS", Type::number, "milliseconds", "1000", 1, day_ms},
    {"VMART_POLICY_LIMIT_MS", Type::number, "milliseconds", "500", 1, day_ms},
    {"VMART_DRY_RUN", Type::flag, "1, yes, on, true or 0, no, off, false", "0"},
    {"VMART_RECORD", Type::path, "a folder, or 0", "0"},
    {"VMART_DECISIONS", Type::path, "a file, or 0", "0"},
    {"VMART_TIMELINE", Type::place, "a file, 1 for vmart-%p.trace.json, or 0", "0"},
    {"VMART_CONTROL", Type::place, "1, 0, or a path with a slash", "0"},
    {"VMART_CONTROL_LIBRARIES", Type::flag, "1, yes, on, true or 0, no, off, false", "0"},
    {"VMART_CALIBRATION", Type::text, "auto, off or a file", "auto"},
    {"VMART_CACHE_DIR", Type::text, "a folder", "$XDG_CACHE_HOME/vmart or ~/.cache/vmart"},
    {"VMART_MACHINES", Type::text, "a folder", "none"},
    {"VMART_SIM_BYTES", Type::bytes, bytes_words, "8GiB", 1, sim_bytes_max},
    {"VMART_NVML", Type::place, "1, 0 or a library", "1"},
    {"VMART_NVTX", Type::flag, "1, yes, on, true or 0, no, off, false", "0"},
    {"VMART_LOG", Type::word, "off, error, warn, info or debug", "warn"},
};
// clang-format on

/// Variables of the tests and benchmarks in the source tree, and of the Python package.
constexpr std::string_view others[] = {"VMART_SEED",     "VMART_LONG",   "VMART_GPU_TEST",
                                       "VMART_CONTRACT", "VMART_COMMIT", "VMART_VLLM",
                                       "VMART_RUN"};
constexpr std::string_view others_begin[] = {"VMART_TEST_", "VMART_BENCH_", "VMART_CONTRACT_",
                                             "VMART_TWIN_", "VMART_RUN_"};

const EnvironmentVariable& known(std::string_view name) {
  const auto* const found = std::ranges::find(variables, name, &EnvironmentVariable::name);
  VMART_CHECK(found != std::end(variables), "the table lists each variable that is read");
  return *found;
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() noexcept {
  return variables;
}

void refuse_setting(std::string_view what, std::string_view text, std::string_view takes) {
  throw Error(ErrorKind::invalid_argument, "vma::Runtime",
              fmt::format("{} is \"{}\"; expected {}", what, text, takes));
}

std::string environment_takes(std::string_view name) {
  const EnvironmentVariable& variable = known(name);
  if (variable.type != Type::number) return std::string(variable.takes);
  return fmt::format("{}, at least {} and at most {}", variable.takes, variable.least,
                     variable.most);
}

namespace {

/// Compares the two, ignoring case.
bool is_word(std::string_view text, std::string_view word) noexcept {
  return std::ranges::equal(text, word, [](char each, char letter) {
    return (each >= 'A' && each <= 'Z' ? each - 'A' + 'a' : each) == letter;
  });
}

}  // namespace

std::optional<bool> yes_or_no(std::string_view text) noexcept {
  constexpr std::string_view yes[] = {"1", "yes", "on", "true", "auto"};
  constexpr std::string_view no[] = {"0", "no", "off", "false"};
  const auto is_text = [&](std::string_view word) { return is_word(text, word); };
  if (std::ranges::any_of(yes, is_text)) return true;
  if (std::ranges::any_of(no, is_text)) return false;
  return std::nullopt;
}

const char* environment_variable(const char* name) noexcept {
  return secure_getenv(name);
}

bool ignores_environment() noexcept {
  return getauxval(AT_SECURE) != 0;
}

std::optional<std::string> environment_text(std::string_view name) {
  const char* const text = environment_variable(std::string(known(name).name).c_str());
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

std::optional<std::string> environment_path(std::string_view name) {
  auto text = environment_text(name);
  const auto word = text ? yes_or_no(*text) : std::nullopt;
  if (!word) return text;
  if (*word) refuse_setting(name, *text, environment_takes(name));
  return std::nullopt;
}

std::optional<std::string> environment_place(std::string_view name) {
  auto text = environment_text(name);
  const auto word = text ? yes_or_no(*text) : std::nullopt;
  if (!word) return text;
  return *word ? std::optional<std::string>("auto") : std::nullopt;
}

std::optional<bool> environment_flag(std::string_view name) {
  const auto text = environment_text(name);
  if (!text) return std::nullopt;
  const auto word = yes_or_no(*text);
  if (!word || is_word(*text, "auto")) refuse_setting(name, *text, environment_takes(name));
  return word;
}

std::optional<std::uint64_t> environment_number(std::string_view name) {
  const EnvironmentVariable& variable = known(name);
  const auto text = environment_text(name);
  if (!text) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, failed] = std::from_chars(text->data(), end, number);
  if (failed != std::errc() || stop != end || number < variable.least || number > variable.most) {
    refuse_setting(name, *text, environment_takes(name));
  }
  return number;
}

std::optional<std::uint64_t> environment_bytes(std::string_view name) {
  const EnvironmentVariable& variable = known(name);
  const auto text = environment_text(name);
  if (!text) return std::nullopt;
  const std::uint64_t bytes = parse_size(*text, std::string(name));
  if (bytes < variable.least || (variable.most > 0 && bytes > variable.most)) {
    refuse_setting(name, *text,
                   fmt::format("at least {} and at most {} bytes", variable.least, variable.most));
  }
  return bytes;
}

std::uint64_t parse_size(const std::string& text, const std::string& what) {
  constexpr std::string_view letters = "KMGT";
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc()) refuse_setting(what, text, bytes_words);
  const std::string_view suffix(stop, static_cast<std::size_t>(end - stop));
  if (suffix.empty() || suffix == "B") return number;
  const std::size_t letter = letters.find(suffix.front());
  const std::string_view rest = suffix.substr(1);
  if (letter == std::string_view::npos || !(rest.empty() || rest == "iB")) {
    refuse_setting(what, text, bytes_words);
  }
  const std::size_t shift = 10 * (letter + 1);
  if (number > (UINT64_MAX >> shift)) refuse_setting(what, text, "less than 16 EiB");
  return number << shift;
}

std::optional<UnknownVariable> unknown_variable(std::string_view name) {
  if (!name.starts_with("VMART_") || std::ranges::count(others, name) > 0) return std::nullopt;
  const auto begins = [&](std::string_view begin) { return name.starts_with(begin); };
  if (std::ranges::any_of(others_begin, begins)) return std::nullopt;
  std::vector<std::string_view> names;
  for (const EnvironmentVariable& variable : variables) names.push_back(variable.name);
  if (std::ranges::count(names, name) > 0) return std::nullopt;
  return UnknownVariable{std::string(name), std::string(nearest_name(name, names))};
}

}  // namespace vma
