#include "tools/vmart/control_commands.hpp"

#include "tools/vmart/control_text.hpp"
#include "tools/vmart/terminal_screen.hpp"

#include <vma/place.hpp>

#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::size_t events_max = 200;  // More than the tallest terminal shows.

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
    const json::object& place = object_of(value);
    if (sort == TopSort::share) return used_share(place);
    return number_of(place, sort == TopSort::used ? "used_bytes" : "demand_bytes_s");
  };
  if (sort != TopSort::place) std::ranges::stable_sort(places, std::greater<>(), key);
  return places;
}

const char* style_of(double used_share) {
  if (used_share >= 0.95) return Style::hot;
  if (used_share >= 0.8) return Style::warm;
  return used_share > 0 ? Style::cool : Style::plain;
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
    add_operations(lines, status);
    add_places(lines, sorted(list_of(status, "places"), sort), screen);
    add_loads(lines, object_of(object_of(stats, "runtime"), "loads"), screen);
    add_allocations(lines, screen);
    add_events(lines, screen);
    fit(lines, screen);
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
    const std::string held = text_of(status, "moves_held");
    const pid_t told = client_.program().pid;
    const std::uint64_t pid = told > 0 ? static_cast<std::uint64_t>(told) : count_of(status, "pid");
    std::vector<Line> lines = {
        {fmt::format("vmart {}  {} ({})  up {}", text_of(status, "description"), program_of(pid),
                     pid, seconds_text(now)),
         Style::title},
        {fmt::format("policy {}{}  moves {} running, {} queued  moved {} ({}/s)",
                     text_of(status, "policy"), paused ? " (paused)" : "",
                     count_of(status, "moves_running"), count_of(status, "moves_queued"),
                     bytes_text(moved), bytes_text(rate)),
         paused ? Style::warm : Style::plain}};
    if (!held.empty()) lines.push_back({held, Style::warm});
    return lines;
  }

  /// Long moves: how far each is.
  static void add_operations(std::vector<Line>& lines, const json::object& status) {
    for (const json::value& value : list_of(status, "operations")) {
      const json::object* const one = value.if_object();
      if (one == nullptr) continue;
      const double done = number_of(*one, "bytes_done"), all = number_of(*one, "bytes");
      const double took = number_of(*one, "running_s");
      lines.push_back(
          {fmt::format("#{} to {}: {} of {} ({:.0f} %), {}/s", count_of(*one, "operation"),
                       text_of(*one, "to"), bytes_text(done), bytes_text(all),
                       all > 0 ? 100 * done / all : 0, bytes_text(took > 0 ? done / took : 0)),
           Style::moving});
    }
  }

  /// The largest, with their tags.
  void add_allocations(std::vector<Line>& lines, const Screen& screen) {
    constexpr std::size_t rows_max = 5, events_at_least = 5;
    const bool bounded = screen.height != Screen().height;
    const std::size_t room = bounded ? left(lines, screen) : rows_max + events_at_least + 2;
    if (room < events_at_least + 4 || tagged_.empty()) return;
    TextTable table({{"largest", 18}, {"size", 11}, {"tag", 12}, {"where", 20}});
    for (const json::object& one : tagged_) {
      if (table.rows() == std::min(rows_max, room - events_at_least - 2)) break;
      std::string where;
      const json::object& bytes_at = object_of(one, "bytes_at");
      for (const auto& [at, bytes] : bytes_at) {
        where += fmt::format("{}{} {}", where.empty() ? "" : ", ", with_place_names(printable(at)),
                             bytes_text(number_of(bytes_at, at)));
      }
      table.add({text_of(one, "address"), bytes_text(number_of(one, "bytes")), text_of(one, "tag"),
                 std::move(where)});
    }
    lines.push_back({});
    for (const std::string& row : table.lines(screen.width))
      lines.push_back({row, lines.back().text.empty() ? Style::title : Style::plain});
  }

  /// Of the allocation that the event is about; empty if it is not one of the largest.
  std::string tag_at(const json::object& event) const {
    const std::uint64_t address = std::strtoull(text_of(event, "address").c_str(), nullptr, 16);
    for (const json::object& one : tagged_) {
      const std::uint64_t begin = std::strtoull(text_of(one, "address").c_str(), nullptr, 16);
      if (address >= begin && address - begin < count_of(one, "bytes")) return text_of(one, "tag");
    }
    return {};
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
          {rows[i], i == 0 ? Style::title : style_of(used_share(object_of(places[i - 1])))});
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
      const std::string kind = text_of(events_[i], "kind");
      json::object event = events_[i];
      if (std::string tag = tag_at(event); !tag.empty()) event["tag"] = std::move(tag);
      lines.push_back({event_line(event), kind.ends_with("failed") ? Style::hot
                                          : kind == "move_done"    ? Style::cool
                                                                   : Style::plain});
    }
  }

  /// Reads the last events anew: how often a refusal has occurred changes.
  void take_events() {
    const std::uint64_t again = since_ - std::min<std::uint64_t>(since_, events_max);
    const json::object answer = client_.ask({{"command", "events"}, {"since", again}});
    since_ = count_of(answer, "next");
    events_.clear();
    for (const json::value& event : list_of(answer, "events")) {
      events_.push_back(object_of(event));
    }
    while (events_.size() > events_max) events_.pop_front();
    take_allocations();
  }

  void take_allocations() {
    constexpr std::size_t shown_max = 64;
    tagged_.clear();
    try {
      const json::object page = client_.ask({{"command", "where"},
                                             {"what", fmt::format("largest:{}", shown_max)},
                                             {"most", shown_max}});
      for (const json::value& one : list_of(page, "allocations")) {
        if (tagged_.size() < shown_max) tagged_.push_back(object_of(one));
      }
    } catch (const ControlRefusal&) {  // There are no allocations.
    }
    std::ranges::stable_sort(tagged_, std::greater<>(),
                             [](const json::object& one) { return number_of(one, "bytes"); });
  }

  ControlClient& client_;
  std::uint64_t since_ = 0;
  std::deque<json::object> events_;
  std::vector<json::object> tagged_;  // The largest allocations, the largest first.
  double last_time_ = 0, last_moved_ = 0;
};

/// What the keys do, until one is pressed.
std::vector<Line> key_help() {
  return {{"Keys", Style::title},
          {"  q, Ctrl-C  quit"},
          {"  s          sort places by name, used, share or demand"},
          {"  h, ?       this help"},
          {},
          {"Colours", Style::title},
          {"  moves that run", Style::moving},
          {"  places with memory, moves that are done", Style::cool},
          {"  places of which more than 80 % is used; paused", Style::warm},
          {"  places of which more than 95 % is used; failures", Style::hot},
          {},
          {"Any key goes back."}};
}

TopSort next_of(TopSort sort) {
  return sort == TopSort::demand ? TopSort::place
                                 : static_cast<TopSort>(static_cast<int>(sort) + 1);
}

/// All programs that this user may control and whose runtimes listen, one a row.
class Programs {
 public:
  static std::vector<json::object> statuses() {
    constexpr int limit_ms = 1000;  // A program that does not answer delays the others so long.
    std::vector<json::object> found;
    for (const ListeningProgram& each : listeners()) {
      try {
        ControlChoice choice;
        choice.socket = each.path;
        choice.limit_ms = limit_ms;
        json::object status = ControlClient(choice).ask({{"command", "status"}});
        bound(status);
        status["user"] = each.user;
        if (each.pid != 0) status["pid"] = each.pid;  // The kernel's word counts.
        found.push_back(std::move(status));
      } catch (const std::exception&) {  // It has ended meanwhile, or is no runtime.
      }
    }
    return found;
  }

  static std::vector<Line> draw(const Screen& screen) {
    const std::vector<json::object> all = statuses();
    std::vector<TextTable::Column> columns{{"process", 10}, {"user", 8}, {"program", 15}};
    const std::vector<std::string> places = names_of_places(all);
    for (const std::string& place : places) columns.push_back({place + " used/capacity", 22});
    columns.push_back({"policy", 10});
    TextTable table(columns);
    for (const json::object& status : all) {
      const std::uint64_t pid = count_of(status, "pid");
      std::vector<std::string> cells{std::to_string(pid), user_of(status), program_of(pid)};
      for (const std::string& place : places) cells.push_back(usage(status, place));
      cells.push_back(text_of(status, "policy"));
      table.add(std::move(cells));
    }
    std::vector<Line> lines{
        {fmt::format("vmart  {} programs; --pid PID shows one", all.size()), Style::title}};
    for (const std::string& row : table.lines(screen.width)) {
      lines.push_back({row, lines.size() == 1 ? Style::title : Style::plain});
    }
    fit(lines, screen);
    return lines;
  }

 private:
  /// Other users' programs answer what they like, and each place is a column of all programs.
  /// Throws: std::exception if the places are not a list of places.
  static void bound(json::object& status) {
    constexpr std::size_t places_max = 64, policy_letters_max = 64;
    json::array& places = status["places"].as_array();
    if (places.size() > places_max) places.resize(places_max);
    for (json::value& each : places) {
      json::object& place = each.as_object();
      place["at"] = to_string(parse_place(text_of(place, "at")));
    }
    status["policy"] = first_letters(text_of(status, "policy"), policy_letters_max);
  }

  /// Of all programs, GPUs first.
  static std::vector<std::string> names_of_places(const std::vector<json::object>& all) {
    std::set<std::string> names;
    for (const json::object& status : all) {
      for (const json::value& place : list_of(status, "places")) {
        names.insert(text_of(object_of(place), "at"));
      }
    }
    return {names.begin(), names.end()};
  }

  static std::string usage(const json::object& status, const std::string& at) {
    for (const json::value& value : list_of(status, "places")) {
      const json::object& place = object_of(value);
      if (text_of(place, "at") != at) continue;
      const bool known = place.contains("capacity_bytes");
      return fmt::format("{} / {}", bytes_text(number_of(place, "used_bytes")),
                         known ? bytes_text(number_of(place, "capacity_bytes")) : "-");
    }
    return "-";
  }

  static std::string user_of(const json::object& status) {
    const auto id = static_cast<uid_t>(count_of(status, "user"));
    const passwd* const known = getpwuid(id);
    return known != nullptr ? known->pw_name : std::to_string(id);
  }
};

using Draw = std::function<std::vector<Line>(TopSort sort, const Screen& screen)>;

int draw_until_left(const Draw& draw, TopSort sort, double interval_s) {
  const SingleKeys keys;
  const bool colour = has_colour();
  bool helps = false;
  for (;;) {
    Screen screen = Screen::of_terminal();
    screen.height -= std::min<std::size_t>(screen.height, 1);  // Reserves a line for the foot.
    const std::string foot = fmt::format("q: quit  h: help  s: sort by {}", name_of(sort));
    std::vector<Line> lines = helps ? key_help() : draw(sort, screen);
    fit(lines, screen);
    show(lines, std::string(first_letters(foot, screen.width)), colour);
    const std::optional<char> key = keys.pressed(static_cast<int>(interval_s * 1000));
    const bool asked = key == 'h' || key == 'H' || key == '?';
    if (key) helps = asked && !helps;
    if (key == 's' || key == 'S') sort = next_of(sort);
    if (key == 'q' || key == 'Q' || key == interrupt_key) break;
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

TopSort top_sort_of(const std::string& name) {
  for (const TopSort sort : {TopSort::used, TopSort::share, TopSort::demand})
    if (name == name_of(sort)) return sort;
  return TopSort::place;
}

int run_top(const ControlChoice& choice, const TopOptions& options) {
  if (choice.pid == 0 && choice.socket.empty() && listeners().size() > 1) {
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
