#include "tools/top.hpp"

#include "tools/control_commands.hpp"
#include "tools/control_text.hpp"

#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <deque>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::size_t events_shown = 12;
constexpr std::string_view clear_screen = "\x1b[H\x1b[2J";
constexpr char interrupt = 3;  // What Ctrl-C sends while the terminal makes no signals.

/// Keys come one by one and unechoed for a scope. Without signals from the keyboard, so that no key
/// ends the program before the terminal is as it was.
class SingleKeys {
 public:
  SingleKeys() : changed_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!changed_) return;
    termios single = before_;
    single.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(STDIN_FILENO, TCSANOW, &single);
  }
  ~SingleKeys() {
    if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  SingleKeys(const SingleKeys&) = delete;
  SingleKeys& operator=(const SingleKeys&) = delete;

 private:
  termios before_{};
  bool changed_;
};

/// Waits for a key until the next picture is due; true if the user wants to leave.
bool leaves(int pause_ms) {
  pollfd keys{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&keys, 1, pause_ms);
  if (ready <= 0) return ready < 0 && errno != EINTR;
  char key = 0;
  const ssize_t count = read(STDIN_FILENO, &key, 1);
  return count <= 0 || key == 'q' || key == 'Q' || key == interrupt;
}

/// What is remembered from one picture to the next.
class Picture {
 public:
  explicit Picture(ControlClient& client) : client_(client) {}

  std::string draw() { return draw(client_.ask({{"command", "stats"}})); }
  std::string draw(const json::object& stats) {
    const json::object status = client_.ask({{"command", "status"}});
    take_events();
    std::string text = head(status, stats);
    text += places_table(list_of(status, "places")) + "\n";
    const std::string loads = loads_table(object_of(object_of(stats, "runtime"), "loads"));
    if (!loads.empty()) text += loads + "\n";
    for (const std::string& line : events_) text += line + "\n";
    return text;
  }

 private:
  std::string head(const json::object& status, const json::object& stats) {
    const json::object& runtime = stats.at("runtime").as_object();
    const double now = number_of(status, "uptime_s");
    const double moved = number_of(runtime, "bytes_moved");
    const double passed = now - last_time_;
    const double rate = last_time_ > 0 && passed > 0 ? (moved - last_moved_) / passed : 0;
    last_time_ = now;
    last_moved_ = moved;
    return fmt::format(
        "vmart {}  process {}  up {}\npolicy {}{}  moves {} running, {} queued  moved {} "
        "({}/s)\n\n",
        text_of(status, "description"), count_of(status, "pid"), seconds_text(now),
        text_of(status, "policy"), flag_of(status, "paused") ? " (paused)" : "",
        count_of(status, "moves_running"), count_of(status, "moves_queued"), bytes_text(moved),
        bytes_text(rate));
  }

  /// One page: who falls behind skips to where the ring begins.
  void take_events() {
    const json::object answer = client_.ask({{"command", "events"}, {"since", since_}});
    since_ = count_of(answer, "next");
    for (const json::value& event : list_of(answer, "events")) {
      events_.push_back(event_line(event.as_object()));
    }
    while (events_.size() > events_shown) events_.pop_front();
  }

  ControlClient& client_;
  std::uint64_t since_ = 0;
  std::deque<std::string> events_;
  double last_time_ = 0, last_moved_ = 0;
};

}  // namespace

int run_top(const ControlChoice& choice, double interval_s) {
  ControlClient client(choice);
  Picture picture(client);
  if (isatty(STDOUT_FILENO) == 0) {
    fmt::print("{}", picture.draw(current_stats(client)));  // There is no second picture.
    return 0;
  }
  const SingleKeys keys;
  do {
    fmt::print("{}{}(q leaves)\n", clear_screen, picture.draw());
    std::fflush(stdout);
  } while (!leaves(static_cast<int>(interval_s * 1000)));
  return 0;
}

}  // namespace vma
