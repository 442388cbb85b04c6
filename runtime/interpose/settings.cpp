#include "interpose/settings.hpp"

#include "interpose/standing.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

namespace vma::interpose {
namespace {

/// Empty if it is unset.
std::string_view variable(const char* name) noexcept {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::size_t bytes_of(const char* name, std::size_t otherwise) noexcept {
  const std::string_view text = variable(name);
  if (text.empty()) return otherwise;
  std::size_t given = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, given).ptr == end) return given;
  say("%s is \"%.*s\"; expected a number of bytes, so it counts as %zu", name,
      static_cast<int>(text.size()), text.data(), otherwise);
  return otherwise;
}

Settings read() {
  Settings settings;
  settings.on = variable("VMART_RUN") != "off";
  settings.min_bytes = bytes_of("VMART_RUN_MIN_BYTES", settings.min_bytes);
  settings.site_bytes = bytes_of("VMART_RUN_SITE_BYTES", settings.site_bytes);
  if (std::getenv("VMART_RUN_EXCLUDE") != nullptr) {
    settings.excluded = variable("VMART_RUN_EXCLUDE");  // Also with no name.
  }
  settings.children = variable("VMART_RUN_CHILDREN") != "0";
  settings.pools = variable("VMART_RUN_POOLS") == "1";
  settings.capacity_is_set = !variable("VMART_CAPACITY").empty();
  settings.overcommit = variable("VMART_RUN_OVERCOMMIT") == "1";
  settings.vmm = variable("VMART_RUN_VMM") == "1";
  if (const char* const queues = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) {
    settings.hardware_queues = std::clamp(std::atoi(queues), 1, 32);
  }
  settings.uses_are_read = std::ranges::any_of(
      std::initializer_list<const char*>{"VMART_POLICY", "VMART_RECORD", "VMART_DECISIONS"},
      [](const char* name) { return !variable(name).empty() && variable(name) != "0"; });
  return settings;
}

}  // namespace

const Settings& Settings::get() noexcept {
  static const auto* const settings = new Settings(read());
  return *settings;
}

bool is_excluded(const void* caller) noexcept {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (std::string_view left = Settings::get().excluded; !left.empty();) {
    const std::size_t end = std::min(left.find(','), left.size());
    if (end > 0 && file.find(left.substr(0, end)) != std::string_view::npos) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

}  // namespace vma::interpose
