#include "tools/vmart/control_commands.hpp"

#include "base/environment.hpp"
#include "base/units.hpp"
#include "control/selector.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "placement/policies/policy_text.hpp"
#include "tools/vmart/control_text.hpp"

#include <vma/place.hpp>

#include <boost/json/value.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

/// What an operation has moved so far, in one line of a terminal that is written again and again.
class Progress {
 public:
  /// `bytes_asked` 0: unknown.
  Progress(double bytes_asked, bool shown)
      : bytes_asked_(bytes_asked), shown_(shown && isatty(STDERR_FILENO) != 0) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void note(const json::object& event) {
    const std::string kind = text_of(event, "kind");
    if (kind == "move_failed") ++failed_;
    if (kind != "move_done") return;
    bytes_ += number_of(event, "bytes");
    ++chunks_;
  }
  std::uint64_t chunks() const noexcept { return chunks_; }
  std::uint64_t failed() const noexcept { return failed_; }

  void show() {
    if (!shown_ || chunks_ == 0) return;
    const double passed = in_seconds(std::chrono::steady_clock::now() - begin_);
    std::string line = fmt::format("moved {}", bytes_text(bytes_));
    if (bytes_asked_ > 0) {
      line += fmt::format(" of {} ({:.0f} %)", bytes_text(bytes_asked_),
                          std::min(100.0, 100 * bytes_ / bytes_asked_));
    }
    line += fmt::format(", {}, {}/s", counted(chunks_, "chunk"),
                        bytes_text(passed > 0 ? bytes_ / passed : 0));
    fmt::print(stderr, "\r{}\x1b[K", line);
    std::fflush(stderr);
    drawn_ = true;
  }
  void clear() {
    if (!std::exchange(drawn_, false)) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const double bytes_asked_;
  const bool shown_;
  double bytes_ = 0;
  std::uint64_t chunks_ = 0, failed_ = 0;
  bool drawn_ = false;
};

/// "moved 96.0 MiB -> gpu1 in 1.20 s (80.0 MiB/s), streams stopped 3.10 ms: 96.0 MiB were ..."
std::string sum_of(const json::object& event, const Progress& progress) {
  if (text_of(event, "kind") == "stepped") return event_line(event);
  const double bytes = number_of(event, "bytes"), took = number_of(event, "took_s");
  const std::string told = text_of(event, "text");
  if (!event.contains("to") && !told.empty()) return told + " in " + seconds_text(took);
  std::string line = "moved " + bytes_text(bytes);
  if (event.contains("to"))
    line += " to " + text_of(event, "to");
  else if (event.contains("from"))
    line += " from " + text_of(event, "from");
  line += " in " + seconds_text(took);
  if (took > 0 && bytes > 0) line += " (" + bytes_text(bytes / took) + "/s)";
  if (event.contains("stall_s"))
    line += ", work stopped " + seconds_text(number_of(event, "stall_s"));
  if (event.contains("stop")) line += " by " + text_of(event, "stop");
  if (progress.failed() > 0) line += ", " + counted(progress.failed(), "chunk") + " did not move";
  return told.empty() ? line : line + "; " + told;
}

/// Prints the sum of an operation once it has ended, and its progress on a terminal; or the last
/// event and `more` as JSON. Throws: std::runtime_error with the reason if it failed.
void await_operation(ControlClient& client, std::uint64_t operation, std::uint64_t since,
                     bool as_json, const json::object& more = {}) {
  constexpr std::uint64_t failures_shown_max = 8;
  EventFollower follower(client, since);
  Progress progress(number_of(object_of(more, "selected"), "bytes"), !as_json);
  for (;;) {
    for (const json::value& value : follower.next()) {
      const json::object& event = object_of(value);
      if (count_of(event, "operation") != operation) continue;
      progress.note(event);
      const std::string kind = text_of(event, "kind");
      if (kind == "move_failed" && !as_json && progress.failed() <= failures_shown_max) {
        progress.clear();
        fmt::print("{}\n", event_line(event));
      }
      const bool failed = kind == "operation_failed";
      if (!failed && kind != "operation_done" && kind != "stepped") continue;
      progress.clear();
      if (as_json) {
        json::object last = event;
        last.insert(more.begin(), more.end());
        print_json(last);
      } else if (!failed || number_of(event, "bytes") > 0) {
        fmt::print("{}\n", sum_of(event, progress));
      }
      if (failed) throw std::runtime_error(text_of(event, "text"));
      return;
    }
    progress.show();
    follower.wait();
  }
}

/// "selected 2 allocations, 8.0 MiB: 0x7f0000000000 0x7f1000000000"
void print_selected(const json::object& selected) {
  constexpr std::size_t shown_max = 8;
  const std::uint64_t count = count_of(selected, "count");
  const json::array& first = list_of(selected, "first");
  const std::size_t shown = std::min(first.size(), shown_max);
  std::string line = fmt::format("selected {}, {}:", counted(count, "allocation"),
                                 bytes_text(number_of(selected, "bytes")));
  for (std::size_t each = 0; each < shown; ++each) {
    if (const json::object* one = first[each].if_object()) line += " " + text_of(*one, "address");
  }
  if (count > shown) line += fmt::format(" and {} more", count - shown);
  fmt::print("{}\n", line);
}

std::uint64_t latest_event(ControlClient& client) {
  return count_of(client.ask({{"command", "events"}, {"since", UINT64_MAX}}), "next");
}

void print_counts(const char* title, const json::object& counts) {
  fmt::print("{}\n", title);
  for (const auto& [name, value] : counts) {
    if (value.is_array() || name == "loads") continue;  // Lists and loads have tables of their own.
    fmt::print("  {:<24} {}\n", printable(name), value_text(name, value));
  }
}

void print_decision(const json::object& decision) {
  std::string verdict = text_of(decision, "verdict");
  if (const std::uint64_t times = count_of(decision, "times"); times > 1) {
    verdict +=
        fmt::format(" ({} times until {})", times, seconds_text(number_of(decision, "last_s")));
  }
  fmt::print("{:>12}  {} {} {} -> {}: {}\n", seconds_text(number_of(decision, "at_s")),
             text_of(decision, "address"), bytes_text(number_of(decision, "bytes")),
             text_of(decision, "from"), text_of(decision, "to"), verdict);
  fmt::print(
      "{:>12}  {}: {}; worth {}, predicted {}{}\n", "", text_of(decision, "policy"),
      text_of(decision, "reason"), seconds_text(number_of(decision, "value")),
      seconds_text(number_of(decision, "predicted_s")),
      decision.contains("took_s") ? ", took " + seconds_text(number_of(decision, "took_s")) : "");
}

json::object parameter_json(const PolicyParameter& parameter) {
  const ParameterWords words = words_of(parameter);
  json::object object{
      {"name", parameter.name}, {"type", words.type}, {"default", words.default_value}};
  if (parameter.type != PolicyParameter::Type::flag) {
    object["least"] = words.min;
    object["most"] = words.max;
  }
  object["meaning"] = parameter.meaning;
  return object;
}

/// Those of a runtime, the one with the least memory first.
std::vector<std::string> gpus_of(const ControlChoice& choice) {
  ControlClient client(choice);
  const json::object status = client.ask({{"command", "status"}});
  std::multimap<double, std::string> gpus;
  for (const json::value& value : list_of(status, "places")) {
    const json::object& place = object_of(value);
    const std::string at = text_of(place, "at");
    if (parse_place(at).kind != Place::Kind::gpu) continue;
    gpus.emplace(number_of(place, "used_bytes"), at);
  }
  std::vector<std::string> names;
  for (const auto& [used, name] : gpus) names.push_back(name);
  return names;
}

}  // namespace

boost::json::object current_stats(ControlClient& client) {
  constexpr int asks_max = 20;
  constexpr int pause_ms = 50;
  for (int asks = 1;; ++asks) {
    json::object stats = client.ask({{"command", "stats"}});
    const json::object& loads = object_of(object_of(stats, "runtime"), "loads");
    if (asks == asks_max || text_of(loads, "state") != "starting") return stats;
    poll(nullptr, 0, pause_ms);
  }
}

int run_status(const ControlChoice& choice, bool as_json) {
  ControlClient client(choice);
  const json::object status = client.ask({{"command", "status"}});
  if (as_json) {
    print_json(status);
    return 0;
  }
  if (const std::string advice = version_advice(status); !advice.empty()) {
    fmt::print("version    {}\n", advice);
  }
  fmt::print("machine    {}\nprocess    {}, up {}\npolicy     {}{}\n",
             text_of(status, "description"), count_of(status, "pid"),
             seconds_text(number_of(status, "uptime_s")), text_of(status, "policy"),
             flag_of(status, "paused") ? " (paused)" : "");
  fmt::print("moves      {} running, {} queued; {} ticks\nmemory     {} allocations\n",
             count_of(status, "moves_running"), count_of(status, "moves_queued"),
             count_of(status, "ticks"), count_of(status, "allocations"));
  // Of programs under `vmart run --vmm` only. Older programs do not report them.
  const double backed = status.contains("backing_bytes") ? number_of(status, "backing_bytes") : 0;
  const double passed = status.contains("passed_bytes") ? number_of(status, "passed_bytes") : 0;
  if (backed > 0 || passed > 0) {
    fmt::print("mapped     by the program itself: {} of vmart, {} of the driver\n",
               bytes_text(backed), bytes_text(passed));
  }
  fmt::print("{}", places_table(list_of(status, "places")).text());
  return 0;
}

int run_migrate(const ControlChoice& choice, const MigrateCommand& command, bool as_json) {
  const std::string& to = command.what_and_to.back();
  static_cast<void>(parse_place(to));  // Says what a place is, also if no program listens.
  ControlClient client(choice);
  const auto what = std::span(command.what_and_to).first(command.what_and_to.size() - 1);
  const json::object request{{"command", "migrate"},
                             {"what", json::array(what.begin(), what.end())},
                             {"to", to},
                             {"dry_run", command.dry_run}};
  const std::uint64_t since = command.dry_run ? 0 : latest_event(client);
  const json::object answer = client.ask(request);
  const json::object& selected = object_of(answer, "selected");
  if (!as_json) print_selected(selected);
  if (!command.dry_run) {
    await_operation(client, count_of(answer, "operation"), since, as_json,
                    {{"selected", selected}});
    return 0;
  }
  const json::object& prediction = object_of(answer, "prediction");
  if (as_json) {
    print_json(answer);
    return 0;
  }
  fmt::print("would move {} in {}: {}; streams stall for {}\n",
             bytes_text(number_of(prediction, "bytes")),
             counted(count_of(prediction, "chunks"), "chunk"),
             seconds_text(number_of(prediction, "took_s")),
             seconds_text(number_of(prediction, "stall_s")));
  if (const double left = number_of(prediction, "bytes_no_room"); left > 0) {
    fmt::print("{} of it has no room at {} now\n", bytes_text(left), to);
  }
  return 0;
}

int run_drain(const ControlChoice& choice, const std::string& at, bool as_json) {
  ControlClient client(choice);
  const std::uint64_t since = latest_event(client);
  const json::object answer = client.ask({{"command", "drain"}, {"at", at}});
  await_operation(client, count_of(answer, "operation"), since, as_json);
  return 0;
}

int run_capacity(const ControlChoice& choice, const std::string& at, const std::string& size,
                 bool as_json) {
  ControlClient client(choice);
  const std::uint64_t since = latest_event(client);
  const json::object answer = client.ask({{"command", "capacity"}, {"at", at}, {"bytes", size}});
  await_operation(client, count_of(answer, "operation"), since, as_json);
  return 0;
}

int run_yield(const ControlChoice& choice, const std::string& at, const std::string& size,
              bool as_json) {
  const std::string name = place_name(parse_place(at));
  const std::uint64_t wanted = parse_size(size, "SIZE");
  ControlClient client(choice);
  const json::object stats = client.ask({{"command", "stats"}});
  for (const json::value& value : list_of(object_of(stats, "runtime"), "places")) {
    const json::object& place = object_of(value);
    if (text_of(place, "at") != name) continue;
    const std::uint64_t movable = count_of(place, "allocated_bytes");
    if (wanted > movable) {
      throw std::runtime_error(
          fmt::format("{} is more than the {} that process {} has at {}; ask for at most that",
                      bytes_text(static_cast<double>(wanted)),
                      bytes_text(static_cast<double>(movable)), choice.pid, name));
    }
    // What the runtime itself has there stays.
    const std::uint64_t kept =
        movable - wanted + count_of(place, "own_bytes") + count_of(place, "leaked_bytes");
    return run_capacity(choice, at, std::to_string(kept), as_json);
  }
  throw std::runtime_error(
      fmt::format("process {} has no place {}; `vmart status --pid {}` shows "
                  "those that it has",
                  choice.pid, name, choice.pid));
}

int run_park(const ControlChoice& choice, bool as_json) {
  // The emptiest first: what leaves a GPU goes to another one that still has room.
  for (const std::string& gpu : gpus_of(choice)) run_capacity(choice, gpu, "0", as_json);
  return 0;
}

int run_unpark(const ControlChoice& choice, const std::string& to, bool as_json) {
  const std::string name = place_name(parse_place(to));
  const std::vector<std::string> gpus = gpus_of(choice);
  if (std::ranges::count(gpus, name) == 0) {
    throw std::runtime_error(
        fmt::format("{} is none of the program's GPUs; it has {}", name, fmt::join(gpus, ", ")));
  }
  for (const std::string& gpu : gpus) run_capacity(choice, gpu, "none", as_json);
  ControlClient client(choice);
  if (list_allocations(client, "").empty()) return 0;
  return run_migrate(choice, {{"all", name}, false}, as_json);
}

int run_policy(const ControlChoice& choice, const std::string& set, bool as_json) {
  ControlClient client(choice);
  json::object request{{"command", "policy"}};
  if (!set.empty()) request["set"] = set;
  const json::object answer = client.ask(request);
  if (as_json) {
    print_json(answer);
    return 0;
  }
  fmt::print("{}\n", text_of(answer, "policy"));
  if (!set.empty()) return 0;
  for (const json::value& known : list_of(answer, "known")) {
    if (known.is_string()) fmt::print("  {}\n", printable(known.get_string()));
  }
  fmt::print(
      "`vmart policy NAME` lists the parameters of a policy, `vmart policy --set NAME` sets it\n");
  return 0;
}

int run_describe_policy(const std::string& name, bool as_json) {
  const PolicyKind& kind = built_in_policies().require(name);
  if (as_json) {
    json::array parameters;
    for (const PolicyParameter& each : kind.parameters) parameters.push_back(parameter_json(each));
    print_json(json::object{
        {"name", kind.name}, {"source", kind.source}, {"parameters", std::move(parameters)}});
    return 0;
  }
  fmt::print("{}: {}\n", kind.name, kind.source);
  for (const PolicyParameter& each : kind.parameters) {
    const ParameterWords words = words_of(each);
    const bool flag = each.type == PolicyParameter::Type::flag;
    fmt::print("  {}={}\n      {}{}; {}\n", each.name, words.default_value, words.type,
               flag ? "" : fmt::format(", {} to {}", words.min, words.max), each.meaning);
  }
  const std::string example = kind.parameters.empty()
                                  ? ""
                                  : fmt::format(":{}={}", kind.parameters[0].name,
                                                words_of(kind.parameters[0]).default_value);
  fmt::print("`vmart policy --set {}{}` sets it\n", kind.name, example);
  return 0;
}

int run_plain(const ControlChoice& choice, const std::string& command, bool as_json) {
  ControlClient client(choice);
  const std::uint64_t since = latest_event(client);
  const json::object answer = client.ask({{"command", command}});
  if (answer.contains("operation")) {
    await_operation(client, count_of(answer, "operation"), since, as_json);
  } else if (as_json) {
    print_json(answer);
  } else {
    fmt::print("{}\n", flag_of(answer, "paused") ? "paused" : "running");
  }
  return 0;
}

int run_explain(const ControlChoice& choice, const std::string& what, bool as_json) {
  // Each takes one request, and a runtime limits their rate.
  constexpr std::size_t asked_max = 100;
  ControlClient client(choice);
  std::vector<std::string> addresses{what};
  if (!parse_address(what)) {
    addresses.clear();
    for (const json::value& one : list_allocations(client, what)) {
      addresses.push_back(text_of(object_of(one), "address"));
    }
  }
  if (addresses.size() > asked_max) {
    fmt::print(stderr, "vmart: only the first {} of {} allocations are explained\n", asked_max,
               addresses.size());
    addresses.resize(asked_max);
  }
  std::vector<json::object> decisions;
  json::array now;
  for (const std::string& address : addresses) {
    const json::object answer = client.ask({{"command", "explain"}, {"address", address}});
    for (const json::value& line : list_of(answer, "now")) now.push_back(line);
    for (const json::value& one : list_of(answer, "decisions")) decisions.push_back(object_of(one));
  }
  std::ranges::stable_sort(decisions, std::greater<>(),
                           [](const json::object& one) { return number_of(one, "at_s"); });
  if (as_json) {
    print_json(json::object{{"now", std::move(now)},
                            {"decisions", json::array(decisions.begin(), decisions.end())}});
    return 0;
  }
  for (const json::value& line : now) {
    if (line.is_string()) fmt::print("{}\n", with_place_names(printable(line.get_string())));
  }
  if (decisions.empty()) fmt::print("no decision about {} is in the log\n", printable(what));
  for (const json::object& decision : decisions) print_decision(decision);
  return 0;
}

int run_stats(const ControlChoice& choice, StatsForm form) {
  ControlClient client(choice);
  const json::object stats = current_stats(client);
  if (form == StatsForm::prometheus) {
    const json::object answer = client.ask({{"command", "stats"}, {"format", "prometheus"}});
    fmt::print("{}", text_of(answer, "prometheus"));
    return 0;
  }
  if (form == StatsForm::json) {
    print_json(stats);
    return 0;
  }
  const json::object& runtime = object_of(stats, "runtime");
  print_counts("runtime", runtime);
  print_counts("scheduler", object_of(stats, "scheduler"));
  if (const TextTable loads = loads_table(object_of(runtime, "loads")); !loads.empty()) {
    fmt::print("{}", loads.text());
  }
  return 0;
}

}  // namespace vma
