#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace vma {

enum class LogLevel { off, error, warn, info, debug };

/// Set by VMART_LOG (off, error, warn, info, debug); `warn` by default. Read once.
LogLevel log_level() noexcept;
/// Writes one line to standard error, in one piece even if several threads write.
void log_line(LogLevel level, std::string_view text) noexcept;

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (level > log_level()) return;
  try {
    log_line(level, fmt::format(format, std::forward<Args>(args)...));
  } catch (...) {  // Lack of memory for a log line must not cause a failure.
    log_line(level, "(a message that could not be formatted)");
  }
}

/// Logs unknown variables VMART_* of this process, or that all are ignored, once.
void warn_of_unknown_variables();

}  // namespace vma
