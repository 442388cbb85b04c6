#include "tools/vmart-lab/run_progress.hpp"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace vma {
namespace {

constexpr std::size_t bar_columns = 30;
constexpr auto between_bars = std::chrono::milliseconds(100);
constexpr auto between_lines = std::chrono::seconds(10);

/// A line that is as wide as the terminal wraps in some, and a wrapped line cannot be overwritten.
std::size_t columns_max() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80U) - 1;
}

}  // namespace

RunProgress::RunProgress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void RunProgress::say(const std::string& what) const {
  if (terminal_) fmt::print(stderr, "{}\n", what);
}

void RunProgress::begin(std::size_t cells, std::size_t finished) {
  began_ = true;
  cells_ = cells;
  before_ = done_ = finished;
  start_ = printed_ = Clock::now();
  if (finished > 0) fmt::print(stderr, "{} of {} cells were already finished\n", finished, cells);
  if (terminal_) print("");
}

void RunProgress::step(const std::string& id) {
  ++done_;
  const Clock::time_point now = Clock::now();
  if (now - printed_ < (terminal_ ? Clock::duration(between_bars) : between_lines)) return;
  printed_ = now;
  print(id);
}

void RunProgress::print(const std::string& id) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_ - before_) / seconds : 0;
  const std::string rest =
      rate > 0 ? fmt::format("{:.0f} s left", static_cast<double>(cells_ - done_) / rate) : "";
  if (!terminal_) {
    fmt::print(stderr, "{} of {} cells, {}\n", done_, cells_, rest);
    return;
  }
  const std::size_t full = bar_columns * done_ / std::max<std::size_t>(cells_, 1);
  const std::string line = fmt::format("[{:#<{}}{:{}}] {}/{} {} {}", "", full, "",
                                       bar_columns - full, done_, cells_, rest, id);
  fmt::print(stderr, "\r{}\x1b[K", line.substr(0, columns_max()));
  std::fflush(stderr);
}

void RunProgress::end() {
  if (!terminal_ || !began_) return;
  print("");
  fmt::print(stderr, "\n");
}

}  // namespace vma
