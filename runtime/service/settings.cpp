#include "service/settings.hpp"

#include "base/units.hpp"

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
  settings.hold_limit = options.hold_limit.value_or(std::chrono::milliseconds(0));
  if (!options.hold_limit) {
    constexpr const char* name = "VMART_HOLD_LIMIT_MS";
    constexpr std::uint64_t day_ms = 86'400'000;
    const auto text = variable(name);
    const std::uint64_t limit = text ? parse_number(*text, name, "milliseconds") : 2'000;
    if (limit == 0 || limit > day_ms) {
      refuse(name, *text, "milliseconds, at least one and at most a day of them");
    }
    settings.hold_limit = std::chrono::milliseconds(limit);
  }
  if (settings.hold_limit <= std::chrono::milliseconds(0) ||
      settings.hold_limit > std::chrono::days(1)) {
    throw Error(ErrorKind::invalid_argument, "vma::Runtime",
                fmt::format("hold_limit is {} ms; it must be more than 0, and at most a day",
                            settings.hold_limit.count()));
  }
  return settings;
}

}  // namespace vma
