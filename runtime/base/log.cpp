#include "base/log.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace vma {
namespace {

constexpr std::string_view level_names[] = {"off", "error", "warn", "info", "debug"};

LogLevel level_from_environment() noexcept {
  const char* text = std::getenv("VMART_LOG");
  if (text == nullptr) return LogLevel::warn;
  for (int level = 0; level <= static_cast<int>(LogLevel::debug); ++level) {
    if (level_names[level] == text) return static_cast<LogLevel>(level);
  }
  std::fprintf(stderr, "vmart: warn: VMART_LOG=%s is none of off error warn info debug\n", text);
  return LogLevel::warn;
}

}  // namespace

LogLevel log_level() noexcept {
  static const LogLevel level = level_from_environment();
  return level;
}

void log_line(LogLevel level, std::string_view text) noexcept {
  const std::string_view name = level_names[static_cast<int>(level)];
  std::fprintf(stderr, "vmart: %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(text.size()), text.data());
}

}  // namespace vma
