#include "tools/vmart/terminal_screen.hpp"

#include "base/environment.hpp"
#include "tools/vmart/control_text.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>

namespace vma {

Screen Screen::of_terminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  return {size.ws_col > 0 ? size.ws_col : 80U, size.ws_row > 0 ? size.ws_row : 24U};
}

void fit(std::vector<Line>& lines, const Screen& screen) {
  for (Line& line : lines) line.text = first_letters(line.text, screen.width);
  if (lines.size() > screen.height) lines.resize(screen.height);
}

bool has_colour() {
  const char* const none = environment_variable("NO_COLOR");
  const char* const term = environment_variable("TERM");
  return isatty(STDOUT_FILENO) != 0 && (none == nullptr || *none == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

void show(const std::vector<Line>& lines, const std::string& foot, bool colour) {
  constexpr const char *home = "\x1b[H", *end_line = "\x1b[K", *end_screen = "\x1b[J",
                       *normal = "\x1b[0m";
  std::string text = home;
  for (const Line& line : lines) {
    const bool styled = colour && *line.style != '\0';
    text += styled ? line.style + line.text + normal : line.text;
    text += end_line;
    text += '\n';
  }
  fmt::print("{}{}{}{}", text, foot, end_line, end_screen);
  std::fflush(stdout);
}

SingleKeys::SingleKeys() : changed_(tcgetattr(STDIN_FILENO, &before_) == 0) {
  // A change of the terminal's size interrupts the wait for a key, so that the picture is redrawn
  // at once.
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;  // Restarts writes to the terminal. `poll` is never restarted.
  sigaction(SIGWINCH, &action, nullptr);
  if (!changed_) return;
  termios single = before_;
  single.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  tcsetattr(STDIN_FILENO, TCSANOW, &single);
}

SingleKeys::~SingleKeys() {
  if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

std::optional<char> SingleKeys::pressed(int pause_ms) const {
  pollfd keys{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&keys, 1, pause_ms);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  char key = 0;
  return ready > 0 && read(STDIN_FILENO, &key, 1) == 1 ? key : interrupt_key;
}

}  // namespace vma
