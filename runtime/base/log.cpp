#include "base/log.hpp"

#include "base/environment.hpp"
#include "base/printable.hpp"
#include "base/process_exit.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>

namespace vma {
namespace {

constexpr std::string_view level_names[] = {"off", "error", "warn", "info", "debug"};

LogLevel level_from_environment() noexcept {
  try {
    const auto text = environment_text("VMART_LOG");
    if (!text) return LogLevel::warn;
    for (int level = 0; level <= static_cast<int>(LogLevel::debug); ++level) {
      if (level_names[level] == *text) return static_cast<LogLevel>(level);
    }
    std::fprintf(stderr, "vmart: warn: VMART_LOG is \"%s\"; expected %s; using warn\n",
                 printable(*text).c_str(), environment_takes("VMART_LOG").c_str());
  } catch (const std::exception&) {  // No memory.
  }
  return LogLevel::warn;
}

}  // namespace

LogLevel log_level() noexcept {
  static const LogLevel level = level_from_environment();
  // During process exit, errors on other threads are expected, so they are not logged.
  return ProcessExit::elsewhere() ? LogLevel::off : level;
}

void log_line(LogLevel level, std::string_view text) noexcept {
  const std::string_view name = level_names[static_cast<int>(level)];
  // The text may contain foreign names, and a terminal may show it.
  std::string shown;
  try {
    shown = printable_lines(text);
    text = shown;
  } catch (const std::exception&) {  // No memory.
  }
  std::fprintf(stderr, "vmart: %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(text.size()), text.data());
}

void warn_of_unknown_variables() {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry(*each);
    if (ignores_environment() && entry.starts_with("VMART_")) {
      log(LogLevel::warn,
          "ignores the variables VMART_*, because this program has more rights than its caller");
      return;
    }
    const auto unknown = unknown_variable(entry.substr(0, entry.find('=')));
    if (!unknown) continue;
    log(LogLevel::warn, "{} is set, but vmart has no such variable{}", unknown->name,
        unknown->nearest.empty() ? "; docs/reference/environment.md lists the variables"
                                 : fmt::format("; did you mean {}?", unknown->nearest));
  }
}

}  // namespace vma
