#include "base/environment.hpp"
#include "control/selector.hpp"
#include "tools/command_line/command_line.hpp"
#include "tools/vmart/control_commands.hpp"

#include <vma/error.hpp>
#include <vma/place.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace vma {
namespace {

/// Parsed arguments. Shared by the subcommands, because only one is given.
struct Arguments {
  ControlChoice choice;
  MigrateCommand migrate;
  TopOptions top;
  std::string text, set, size, sort;
  std::uint64_t since = 0;
  bool follow = false, sites = false, json = false, prometheus = false;
};

using Shared = std::shared_ptr<Arguments>;

/// Says what a process id is, which CLI11 does not.
CLI::Option* add_pid(CLI::App& command, const char* name, int& pid) {
  return command.add_option(name, pid, "process id of the program")
      ->option_text("PID")
      ->check([](const std::string& text) {
        int id = 0;
        const char* const end = text.data() + text.size();
        const auto [stopped, failed] = std::from_chars(text.data(), end, id);
        const bool good = failed == std::errc() && stopped == end && id > 0;
        return good ? std::string()
                    : fmt::format("\"{}\" is no process id; `vmart top` lists the programs", text);
      });
}

/// Adds `--pid` and `--socket`.
void add_choice(CLI::App& command, ControlChoice& choice) {
  auto* pid = add_pid(command, "--pid", choice.pid);
  command
      .add_option("--socket", choice.socket,
                  "control socket of the program; default: the only program that listens")
      ->option_text("PATH")
      ->excludes(pid);
}

CLI::Option* add_place(CLI::App& command, std::string& place) {
  return command.add_option("PLACE", place, "gpu0, gpu1, ... or host0, ...")
      ->required()
      ->check([](const std::string& text) -> std::string {
        try {
          static_cast<void>(parse_place(text));
          return {};
        } catch (const Error& error) {
          return plain_message(error.what());
        }
      });
}

/// A size has a unit: a forgotten one would take all but a few bytes.
CLI::Option* add_size(CLI::App& command, std::string& size, const char* meaning, bool none) {
  return command.add_option("SIZE", size, meaning)
      ->required()
      ->check([none](const std::string& text) -> std::string {
        if (none && text == "none") return {};
        const std::string expected =
            none ? "a size such as 20GiB, or none" : "a size such as 20GiB";
        if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
            text != "0") {
          return fmt::format("{} has no unit; did you mean {}GiB or {}MiB?", text, text, text);
        }
        try {
          parse_size(text, "SIZE");
          return {};
        } catch (const Error&) {
          return fmt::format("\"{}\" is no size; expected {}", text, expected);
        }
      });
}

template <typename Run>
CLI::App& add(CLI::App& app, std::function<int()>& chosen, const Shared& arguments,
              const char* name, const char* meaning, Run run) {
  CLI::App& command = *app.add_subcommand(name, meaning);
  add_choice(command, arguments->choice);
  command.add_flag("--json", arguments->json, "print one JSON object");
  command.callback(
      [&chosen, arguments, run] { chosen = [arguments, run] { return run(*arguments); }; });
  return command;
}

/// The help of a command that takes selectors ends with them.
void add_selectors(CLI::App& command) {
  std::string text = "WHAT is an address, a tag or one of these:";
  for (const SelectorForm& each : selector_forms()) {
    text += fmt::format("\n  {:<27} {}", each.form, each.meaning);
  }
  command.footer(text);
}

void add_top(CLI::App& app, std::function<int()>& chosen, const Shared& shared) {
  CLI::App& top = add(app, chosen, shared, "top", "shows places, moves and events, live",
                      [](const Arguments& given) {
                        TopOptions options = given.top;
                        options.json = given.json;
                        if (!given.sort.empty()) options.sort = top_sort_of(given.sort);
                        return run_top(given.choice, options);
                      });
  top.add_option("--interval", shared->top.interval_s, "refresh interval in seconds")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top.add_option("--sort", shared->sort, "order of places; the key s changes it")
      ->check(CLI::IsMember(std::vector<std::string>{"place", "used", "share", "demand"}));
}

void add_looking(CLI::App& app, std::function<int()>& chosen, const Shared& shared) {
  add(app, chosen, shared, "status", "shows the state of a running program's runtime",
      [](const Arguments& given) { return run_status(given.choice, given.json); });
  CLI::App& where =
      add(app, chosen, shared, "where", "shows where the memory of a running program lies",
          [](const Arguments& given) {
            return run_where(given.choice, {given.text, given.sites, given.json});
          });
  where.add_flag("--sites", shared->sites,
                 "show where the program made them, if vmart run --sites started it");
  where.add_option("WHAT", shared->text, "selects allocations; default: all");
  add_selectors(where);
  CLI::App& explain =
      add(app, chosen, shared, "explain", "explains why chunks lie where they lie",
          [](const Arguments& given) { return run_explain(given.choice, given.text, given.json); });
  explain.add_option("WHAT", shared->text, "selects allocations, or a chunk by its address")
      ->required();
  add_selectors(explain);
  CLI::App& events =
      add(app, chosen, shared, "events", "shows recent events", [](const Arguments& given) {
        return run_events(given.choice, {given.since, given.follow, given.json});
      });
  events.add_option("--since", shared->since, "only events with a higher number")
      ->option_text("NUMBER");
  events.add_flag("--follow", shared->follow,
                  "keep printing new events; with --json, one object per line");
  CLI::App& stats =
      add(app, chosen, shared, "stats", "shows the runtime's counters", [](const Arguments& given) {
        const StatsForm form = given.json         ? StatsForm::json
                               : given.prometheus ? StatsForm::prometheus
                                                  : StatsForm::table;
        return run_stats(given.choice, form);
      });
  stats.add_flag("--prometheus", shared->prometheus, "print in the Prometheus text format")
      ->excludes(stats.get_option("--json"));
  add_top(app, chosen, shared);
}

void add_policy(CLI::App& app, std::function<int()>& chosen, const Shared& shared) {
  CLI::App& policy = add(
      app, chosen, shared, "policy",
      "shows or sets the policy of a running program, or lists the parameters of a built-in policy",
      [](const Arguments& given) {
        return given.text.empty() ? run_policy(given.choice, given.set, given.json)
                                  : run_describe_policy(given.text, given.json);
      });
  auto* name = policy.add_option("NAME", shared->text, "policy whose parameters to list");
  name->check([](const std::string& text) {
    return text.find(':') == std::string::npos
               ? std::string()
               : "expects a name; to set a policy: vmart policy --set " + text;
  });
  policy.add_option("--set", shared->set, "sets it: NAME:PARAMETER=VALUE,...")
      ->option_text("POLICY")
      ->excludes(name);
}

void add_acting(CLI::App& app, std::function<int()>& chosen, const Shared& shared) {
  CLI::App& migrate = add(
      app, chosen, shared, "migrate", "moves allocations and reports the result",
      [](const Arguments& given) { return run_migrate(given.choice, given.migrate, given.json); });
  // One list: CLI11 would take the place for an address if an option follows it.
  migrate
      .add_option("WHAT", shared->migrate.what_and_to,
                  "selects allocations; then a place: gpu0, host0, ...")
      ->expected(2, CLI::detail::expected_max_vector_size)
      ->option_text("WHAT... PLACE")
      ->required();
  add_selectors(migrate);
  migrate.add_flag("--dry-run", shared->migrate.dry_run, "only predict the cost");
  CLI::App& drain =
      add(app, chosen, shared, "drain", "evacuates a place and keeps it closed until `resume`",
          [](const Arguments& given) { return run_drain(given.choice, given.text, given.json); });
  add_place(drain, shared->text);
  CLI::App& capacity =
      add(app, chosen, shared, "capacity",
          "limits what a program has at a place; the coldest leaves", [](const Arguments& given) {
            return run_capacity(given.choice, given.text, given.size, given.json);
          });
  add_place(capacity, shared->text);
  add_size(capacity, shared->size, "such as 20GiB; none removes the limit", true);
  CLI::App& yield = *app.add_subcommand(
      "yield", "takes HBM from a program: its coldest memory leaves, and its capacity falls");
  add_pid(yield, "PID", shared->choice.pid)->required();
  add_place(yield, shared->text);
  add_size(yield, shared->size, "how much to take, such as 20GiB", false);
  yield.add_flag("--json", shared->json, "print one JSON object");
  yield.callback([&chosen, shared] {
    chosen = [shared] {
      return run_yield(shared->choice, shared->text, shared->size, shared->json);
    };
  });
  add(app, chosen, shared, "park", "moves all memory of a program out of HBM, and keeps it out",
      [](const Arguments& given) { return run_park(given.choice, given.json); });
  CLI::App& unpark =
      add(app, chosen, shared, "unpark", "moves all memory of a program to a place, such as gpu0",
          [](const Arguments& given) { return run_unpark(given.choice, given.text, given.json); });
  add_place(unpark, shared->text);
  add_policy(app, chosen, shared);
  const std::pair<const char*, const char*> plain[] = {
      {"pause", "pauses the scheduler, so that nothing moves"},
      {"resume", "resumes the scheduler and reopens drained places"},
      {"step", "runs one tick while the scheduler is paused"}};
  for (const auto& [name, meaning] : plain) {
    add(app, chosen, shared, name, meaning, [name = std::string(name)](const Arguments& given) {
      return run_plain(given.choice, name, given.json);
    });
  }
}

}  // namespace

void add_control_subcommands(CLI::App& app, std::function<int()>& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  add_looking(app, chosen, arguments);
  add_acting(app, chosen, arguments);
}

}  // namespace vma
