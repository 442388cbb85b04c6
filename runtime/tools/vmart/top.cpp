#include "tools/vmart/top.hpp"

#include "base/environment.hpp"
#include "tools/vmart/control_commands.hpp"
#include "tools/vmart/control_text.hpp"

#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::size_t events_max = 200;  // More than the tallest terminal shows.
constexpr char interrupt = 3;  // Ctrl-C arrives as this byte, because SingleKeys turns signals off.

/// Reads keys one by one and without echo while it exists. Also turns off signals from the
/// keyboard, so that no key can end the program before the terminal is restored.
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

/// A change of the terminal's size interrupts the wait for a key, so that the picture is redrawn at
/// once.
void wake_at_resizing() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;  // Restarts writes to the terminal. `poll` is never restarted.
  sigaction(SIGWINCH, &action, nullptr);
}

/// Waits for a key until the next picture is due. Returns none if no key was pressed.
std::optional<char> pressed_key(int pause_ms) {
  pollfd keys{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&keys, 1, pause_ms);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  char key = 0;
  return ready > 0 && read(STDIN_FILENO, &key, 1) == 1 ? key : interrupt;
}

struct Style {
  static constexpr const char *plain = "", *title = "\x1b[1m", *warm = "\x1b[33m",
                              *hot = "\x1b[31m";
};

struct Line {
  std::string text;
  const char* style = Style::plain;
};

struct Screen {
  std::size_t width = std::numeric_limits<std::size_t>::max(), height = width;

  /// The size of the terminal, or 80 x 24 if it is unknown.
  static Screen of_terminal() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size = {};
    return {size.ws_col > 0 ? size.ws_col : 80U, size.ws_row > 0 ? size.ws_row : 24U};
  }
};

bool has_colour() {
  const char* const none = environment_variable("NO_COLOR");
  const char* const term = environment_variable("TERM");
  return isatty(STDOUT_FILENO) != 0 && (none == nullptr || *none == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

std::string_view name_of(TopSort sort) {
  switch (sort) {
    case TopSort::place: return "place";
    case TopSort::used: return "used";
    case TopSort::share: return "share";
    case TopSort::demand: return "demand";
  }
  return "?";
}

json::array sorted(json::array places, TopSort sort) {
  const auto key = [sort](const json::value& value) {
    const json::object& place = value.as_object();
    if (sort == TopSort::share) return used_share(place);
    return number_of(place, sort == TopSort::used ? "used_bytes" : "demand_bytes_s");
  };
  if (sort != TopSort::place) std::ranges::stable_sort(places, std::greater<>(), key);
  return places;
}

const char* style_of(double used_share) {
  if (used_share >= 0.95) return Style::hot;
  return used_share >= 0.8 ? Style::warm : Style::plain;
}

/// State kept from one picture to the next.
class Picture {
 public:
  explicit Picture(ControlClient& client) : client_(client) {}

  /// Returns as many lines as fit, the most important first; events fill the remaining room.
  std::vector<Line> draw(const json::object& stats, TopSort sort, const Screen& screen) {
    const json::object status = client_.ask({{"command", "status"}});
    take_events();
    std::vector<Line> lines = head(status, stats);
    add_places(lines, sorted(list_of(status, "places"), sort), screen);
    add_loads(lines, object_of(object_of(stats, "runtime"), "loads"), screen);
    add_events(lines, screen);
    for (Line& line : lines) line.text = first_letters(line.text, screen.width);
    if (lines.size() > screen.height) lines.resize(screen.height);
    return lines;
  }

  json::object as_json(const json::object& stats) {
    const json::object status = client_.ask({{"command", "status"}});
    take_events();
    json::array events;
    for (const json::object& event : events_) events.push_back(event);
    return {{"status", status}, {"stats", stats}, {"events", std::move(events)}};
  }

 private:
  std::vector<Line> head(const json::object& status, const json::object& stats) {
    const double now = number_of(status, "uptime_s");
    const double moved = number_of(object_of(stats, "runtime"), "bytes_moved");
    const double passed = now - last_time_;
    const double rate = last_time_ > 0 && passed > 0 ? (moved - last_moved_) / passed : 0;
    last_time_ = now;
    last_moved_ = moved;
    const bool paused = flag_of(status, "paused");
    return {{fmt::format("vmart {}  process {}  up {}", text_of(status, "description"),
                         count_of(status, "pid"), seconds_text(now)),
             Style::title},
            {fmt::format("policy {}{}  moves {} running, {} queued  moved {} ({}/s)",
                         text_of(status, "policy"), paused ? " (paused)" : "",
                         count_of(status, "moves_running"), count_of(status, "moves_queued"),
                         bytes_text(moved), bytes_text(rate)),
             paused ? Style::warm : Style::plain}};
  }

  static std::size_t left(const std::vector<Line>& lines, const Screen& screen) {
    return screen.height > lines.size() ? screen.height - lines.size() : 0;
  }

  static void add_places(std::vector<Line>& lines, const json::array& places,
                         const Screen& screen) {
    const std::vector<std::string> rows = places_table(places).lines(screen.width);
    // Number of lines above which an empty line is affordable; otherwise events need the room.
    constexpr std::size_t roomy = 4;
    if (left(lines, screen) > rows.size() + roomy) lines.push_back({});
    const std::size_t room = left(lines, screen);
    const bool all = rows.size() <= room;
    const std::size_t shown = all ? rows.size() : room > 0 ? room - 1 : 0;
    for (std::size_t i = 0; i < shown; ++i) {
      lines.push_back(
          {rows[i], i == 0 ? Style::title : style_of(used_share(places[i - 1].as_object()))});
    }
    if (!all && room > 0) {
      const std::size_t hidden = rows.size() - std::max<std::size_t>(shown, 1);
      lines.push_back({fmt::format("and {} more places", hidden)});
    }
  }

  static void add_loads(std::vector<Line>& lines, const json::object& loads, const Screen& screen) {
    const TextTable table = loads_table(loads);
    if (table.empty()) return;
    const std::vector<std::string> rows = table.lines(screen.width);
    if (left(lines, screen) < rows.size() + 1) return;
    lines.push_back({});
    for (std::size_t i = 0; i < rows.size(); ++i)
      lines.push_back({rows[i], i == 0 ? Style::title : Style::plain});
  }

  void add_events(std::vector<Line>& lines, const Screen& screen) const {
    constexpr std::size_t unbounded_shown = 12;
    if (left(lines, screen) < 2 || events_.empty()) return;
    lines.push_back({});
    const bool bounded = screen.height != Screen().height;
    const std::size_t room = bounded ? left(lines, screen) : unbounded_shown;
    const std::size_t shown = std::min(events_.size(), room);
    for (std::size_t i = events_.size() - shown; i < events_.size(); ++i) {
      const bool failed = text_of(events_[i], "kind").ends_with("failed");
      lines.push_back({event_line(events_[i]), failed ? Style::hot : Style::plain});
    }
  }

  /// Reads one page. A reader that falls behind skips to the start of the ring.
  void take_events() {
    const json::object answer = client_.ask({{"command", "events"}, {"since", since_}});
    since_ = count_of(answer, "next");
    for (const json::value& event : list_of(answer, "events")) {
      events_.push_back(event.as_object());
    }
    while (events_.size() > events_max) events_.pop_front();
  }

  ControlClient& client_;
  std::uint64_t since_ = 0;
  std::deque<json::object> events_;
  double last_time_ = 0, last_moved_ = 0;
};

/// Overwrites the previous picture, to avoid flicker. The last line has no newline, which would
/// scroll.
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

TopSort next_of(TopSort sort) {
  return sort == TopSort::demand ? TopSort::place
                                 : static_cast<TopSort>(static_cast<int>(sort) + 1);
}

/// All programs of the user whose runtimes listen, one a row.
class Programs {
 public:
  static std::vector<json::object> statuses() {
    std::vector<json::object> found;
    for (const std::string& path : listening_sockets()) {
      try {
        ControlChoice choice;
        choice.socket = path;
        found.push_back(ControlClient(choice).ask({{"command", "status"}}));
      } catch (const std::exception&) {  // It has ended meanwhile, or is about to.
      }
    }
    return found;
  }

  static std::vector<Line> draw(const Screen& screen) {
    const std::vector<json::object> all = statuses();
    std::vector<TextTable::Column> columns{{"process", 10}, {"program", 15}};
    const std::vector<std::string> places = names_of_places(all);
    for (const std::string& place : places) columns.push_back({place + " used/capacity", 22});
    columns.push_back({"policy", 10});
    TextTable table(columns);
    for (const json::object& status : all) {
      const std::uint64_t pid = count_of(status, "pid");
      std::vector<std::string> cells{std::to_string(pid), program_of(pid)};
      for (const std::string& place : places) cells.push_back(usage(status, place));
      cells.push_back(text_of(status, "policy"));
      table.add(std::move(cells));
    }
    std::vector<Line> lines{
        {fmt::format("vmart  {} programs; --pid PID shows one", all.size()), Style::title}};
    for (const std::string& row : table.lines(screen.width)) {
      lines.push_back({row, lines.size() == 1 ? Style::title : Style::plain});
    }
    for (Line& line : lines) line.text = first_letters(line.text, screen.width);
    if (lines.size() > screen.height) lines.resize(screen.height);
    return lines;
  }

 private:
  /// Of all programs, GPUs first.
  static std::vector<std::string> names_of_places(const std::vector<json::object>& all) {
    std::set<std::string> names;
    for (const json::object& status : all) {
      for (const json::value& place : list_of(status, "places")) {
        names.insert(text_of(place.as_object(), "at"));
      }
    }
    return {names.begin(), names.end()};
  }

  static std::string usage(const json::object& status, const std::string& at) {
    for (const json::value& value : list_of(status, "places")) {
      const json::object& place = value.as_object();
      if (text_of(place, "at") != at) continue;
      const bool known = place.contains("capacity_bytes");
      return fmt::format("{} / {}", bytes_text(number_of(place, "used_bytes")),
                         known ? bytes_text(number_of(place, "capacity_bytes")) : "-");
    }
    return "-";
  }

  static std::string program_of(std::uint64_t pid) {
    std::string name = "?";
    std::ifstream file(fmt::format("/proc/{}/comm", pid));
    std::getline(file, name);
    return printable(name);
  }
};

using Draw = std::function<std::vector<Line>(TopSort sort, const Screen& screen)>;

int draw_until_left(const Draw& draw, TopSort sort, double interval_s) {
  const SingleKeys keys;
  wake_at_resizing();
  const bool colour = has_colour();
  for (;;) {
    Screen screen = Screen::of_terminal();
    screen.height -= std::min<std::size_t>(screen.height, 1);  // Reserves a line for the foot.
    const std::string foot = fmt::format("q: quit  s: sort by {}", name_of(sort));
    show(draw(sort, screen), std::string(first_letters(foot, screen.width)), colour);
    const std::optional<char> key = pressed_key(static_cast<int>(interval_s * 1000));
    if (key == 's' || key == 'S') sort = next_of(sort);
    if (key == 'q' || key == 'Q' || key == interrupt) break;
  }
  fmt::print("\n");
  return 0;
}

int run_top_of_all(const TopOptions& options) {
  if (options.json) {
    const std::vector<json::object> all = Programs::statuses();
    print_json(json::object{{"programs", json::array(all.begin(), all.end())}});
    return 0;
  }
  if (isatty(STDOUT_FILENO) != 0) {
    return draw_until_left([](TopSort, const Screen& screen) { return Programs::draw(screen); },
                           options.sort, options.interval_s);
  }
  for (const Line& line : Programs::draw(Screen())) fmt::print("{}\n", line.text);
  return 0;
}

}  // namespace

int run_top(const ControlChoice& choice, const TopOptions& options) {
  if (choice.pid == 0 && choice.socket.empty() && listening_sockets().size() > 1) {
    return run_top_of_all(options);
  }
  ControlClient client(choice);
  if (!options.json && isatty(STDOUT_FILENO) != 0) {
    Picture picture(client);
    return draw_until_left(
        [&](TopSort sort, const Screen& screen) {
          return picture.draw(client.ask({{"command", "stats"}}), sort, screen);
        },
        options.sort, options.interval_s);
  }
  // Waits for current values, because only one picture is drawn.
  const json::object stats = current_stats(client);
  Picture picture(client);
  if (options.json) {
    print_json(picture.as_json(stats));
    return 0;
  }
  for (const Line& line : picture.draw(stats, options.sort, Screen()))
    fmt::print("{}\n", line.text);
  return 0;
}

}  // namespace vma
