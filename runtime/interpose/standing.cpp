#include "interpose/standing.hpp"

#include "interpose/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace vma::interpose {
namespace {

std::atomic<bool> aside = false;
std::atomic<bool> driver_is_used = false;
std::atomic<bool> forked_child = false;

}  // namespace

bool takes_part() noexcept {
  return Settings::get().on && !is_forked_child() && !aside.load(std::memory_order_relaxed);
}

void stand_aside(const char* why) noexcept {
  if (!takes_part() || aside.exchange(true) || why == nullptr) return;
  say("stands aside, so the memory of this program does not move: %s", why);
}

void note_driver_is_used() noexcept {
  driver_is_used.store(true, std::memory_order_relaxed);
}

bool driver_was_used() noexcept {
  return driver_is_used.load(std::memory_order_relaxed);
}

bool is_forked_child() noexcept {
  return forked_child.load(std::memory_order_relaxed);
}

void note_fork() noexcept {
  if (driver_is_used.load(std::memory_order_relaxed)) forked_child.store(true);
}

void say(const char* format, ...) noexcept {
  char line[1024] = "vmart run: ";
  constexpr int begin = 11;
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line + begin, sizeof line - begin - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  const std::size_t size =
      begin + std::min(static_cast<std::size_t>(length), sizeof line - begin - 2);
  line[size] = '\n';
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line, size + 1);
}

}  // namespace vma::interpose
