#include "tools/control_commands.hpp"

#include "tools/control_text.hpp"
#include "tools/follow_events.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <poll.h>

#include <cctype>
#include <cstdint>
#include <stdexcept>

namespace vma {
namespace {

namespace json = boost::json;

/// Prints the events of an operation as they come and returns once it has ended.
/// Throws: std::runtime_error with the reason if it failed.
void await_operation(ControlClient& client, std::uint64_t operation, std::uint64_t since) {
  EventFollower follower(client, since);
  for (;;) {
    for (const json::value& value : follower.next()) {
      const json::object& event = value.as_object();
      if (count_of(event, "operation") != operation) continue;
      fmt::print("{}\n", event_line(event));
      const std::string kind = text_of(event, "kind");
      if (kind == "operation_failed") throw std::runtime_error(text_of(event, "text"));
      if (kind == "operation_done" || kind == "stepped") return;
    }
    follower.wait();
  }
}

std::uint64_t latest_event(ControlClient& client) {
  return count_of(client.ask({{"command", "events"}, {"since", UINT64_MAX}}), "next");
}

void print_counts(const char* title, const json::object& counts) {
  fmt::print("{}\n", title);
  for (const auto& [name, value] : counts) {
    if (value.is_object()) {
      fmt::print("  {:<24} {}\n", std::string_view(name), json::serialize(value));
    } else if (!value.is_array()) {
      fmt::print("  {:<24} {}\n", std::string_view(name), json::serialize(value));
    }
  }
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

int run_status(const ControlChoice& choice) {
  ControlClient client(choice);
  const json::object status = client.ask({{"command", "status"}});
  fmt::print("machine    {}\nprocess    {}, up {}\npolicy     {}{}\n",
             text_of(status, "description"), count_of(status, "pid"),
             seconds_text(number_of(status, "uptime_s")), text_of(status, "policy"),
             flag_of(status, "paused") ? " (paused)" : "");
  fmt::print("moves      {} running, {} queued; {} ticks\nmemory     {} allocations\n",
             count_of(status, "moves_running"), count_of(status, "moves_queued"),
             count_of(status, "ticks"), count_of(status, "allocations"));
  fmt::print("{}", places_table(list_of(status, "places")));
  return 0;
}

int run_migrate(const ControlChoice& choice, const MigrateCommand& command) {
  ControlClient client(choice);
  json::object request{{"command", "migrate"}, {"to", command.to}, {"dry_run", command.dry_run}};
  const bool address = std::isdigit(static_cast<unsigned char>(command.what[0])) != 0;
  request[address ? "address" : "tag"] = command.what;
  const std::uint64_t since = command.dry_run ? 0 : latest_event(client);
  const json::object answer = client.ask(request);
  if (!command.dry_run) {
    await_operation(client, count_of(answer, "operation"), since);
    return 0;
  }
  const json::object& prediction = answer.at("prediction").as_object();
  fmt::print("would move {} in {} chunks: {}, of which streams stand {}\n",
             bytes_text(number_of(prediction, "bytes")), count_of(prediction, "chunks"),
             seconds_text(number_of(prediction, "took_s")),
             seconds_text(number_of(prediction, "stall_s")));
  if (const double left = number_of(prediction, "bytes_no_room"); left > 0) {
    fmt::print("{} of it finds no room at {} now\n", bytes_text(left), command.to);
  }
  return 0;
}

int run_drain(const ControlChoice& choice, const std::string& at) {
  ControlClient client(choice);
  const std::uint64_t since = latest_event(client);
  const json::object answer = client.ask({{"command", "drain"}, {"at", at}});
  await_operation(client, count_of(answer, "operation"), since);
  return 0;
}

int run_policy(const ControlChoice& choice, const std::string& name) {
  ControlClient client(choice);
  json::object request{{"command", "policy"}};
  if (!name.empty()) request["set"] = name;
  const json::object answer = client.ask(request);
  fmt::print("{}\n", text_of(answer, "policy"));
  if (!name.empty()) return 0;
  for (const json::value& known : list_of(answer, "known")) {
    fmt::print("  {}\n", std::string_view(known.as_string()));
  }
  return 0;
}

int run_plain(const ControlChoice& choice, const std::string& command) {
  ControlClient client(choice);
  const std::uint64_t since = latest_event(client);
  const json::object answer = client.ask({{"command", command}});
  if (answer.contains("operation")) {
    await_operation(client, count_of(answer, "operation"), since);
  } else {
    fmt::print("{}\n", flag_of(answer, "paused") ? "paused" : "running");
  }
  return 0;
}

int run_explain(const ControlChoice& choice, const std::string& address) {
  ControlClient client(choice);
  const json::object answer = client.ask({{"command", "explain"}, {"address", address}});
  const json::array& decisions = list_of(answer, "decisions");
  if (decisions.empty()) fmt::print("no decision about {} is remembered\n", address);
  for (const json::value& value : decisions) {
    const json::object& decision = value.as_object();
    fmt::print("{:>12}  {} {} {} -> {}: {}\n", seconds_text(number_of(decision, "at_s")),
               text_of(decision, "address"), bytes_text(number_of(decision, "bytes")),
               text_of(decision, "from"), text_of(decision, "to"), text_of(decision, "verdict"));
    fmt::print(
        "{:>12}  {}: {}; worth {}, predicted {}{}\n", "", text_of(decision, "policy"),
        text_of(decision, "reason"), seconds_text(number_of(decision, "value")),
        seconds_text(number_of(decision, "predicted_s")),
        decision.contains("took_s") ? ", took " + seconds_text(number_of(decision, "took_s")) : "");
  }
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
    fmt::print("{}\n", json::serialize(stats));
    return 0;
  }
  print_counts("runtime", stats.at("runtime").as_object());
  print_counts("scheduler", stats.at("scheduler").as_object());
  fmt::print("{}", loads_table(object_of(stats.at("runtime").as_object(), "loads")));
  return 0;
}

}  // namespace vma
