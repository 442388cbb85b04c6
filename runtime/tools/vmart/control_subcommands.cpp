#include "tools/vmart/control_subcommands.hpp"

#include "control/selector.hpp"
#include "tools/vmart/control_commands.hpp"
#include "tools/vmart/follow_events.hpp"
#include "tools/vmart/top.hpp"
#include "tools/vmart/where.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <climits>
#include <map>
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
  std::string text, set, size;
  bool follow = false, sites = false, json = false, prometheus = false;
};

using Shared = std::shared_ptr<Arguments>;

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
                        return run_top(given.choice, options);
                      });
  top.add_option("--interval", shared->top.interval_s, "refresh interval in seconds")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top.add_option("--sort", shared->top.sort, "sort order of places; press s to change it")
      ->transform(CLI::CheckedTransformer(std::map<std::string, TopSort>{
          {"place", TopSort::place},
          {"used", TopSort::used},
          {"share", TopSort::share},
          {"demand", TopSort::demand},
      }));
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
  where.add_option("what", shared->text, "selects allocations; default: all");
  add_selectors(where);
  CLI::App& explain =
      add(app, chosen, shared, "explain", "explains why chunks lie where they lie",
          [](const Arguments& given) { return run_explain(given.choice, given.text, given.json); });
  explain.add_option("what", shared->text, "selects allocations, or a chunk by its address")
      ->required();
  add_selectors(explain);
  CLI::App& events = add(
      app, chosen, shared, "events", "shows recent events",
      [](const Arguments& given) { return run_events(given.choice, given.follow, given.json); });
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
  auto* name = policy.add_option("name", shared->text, "policy whose parameters to list");
  name->check([](const std::string& text) {
    return text.find(':') == std::string::npos
               ? std::string()
               : "expects a name; to set a policy: vmart policy --set " + text;
  });
  policy.add_option("--set", shared->set, "name:parameter=value,...")->excludes(name);
}

void add_acting(CLI::App& app, std::function<int()>& chosen, const Shared& shared) {
  CLI::App& migrate = add(
      app, chosen, shared, "migrate", "moves allocations and reports the result",
      [](const Arguments& given) { return run_migrate(given.choice, given.migrate, given.json); });
  // One list: CLI11 would take the place for an address if an option follows it.
  migrate
      .add_option("what", shared->migrate.what_and_to, "selects allocations, then gpu0, host0, ...")
      ->expected(2, CLI::detail::expected_max_vector_size)
      ->option_text("WHAT... PLACE")
      ->required();
  add_selectors(migrate);
  migrate.add_flag("--dry-run", shared->migrate.dry_run, "only predict the cost");
  CLI::App& drain =
      add(app, chosen, shared, "drain", "evacuates a place and keeps it closed until `resume`",
          [](const Arguments& given) { return run_drain(given.choice, given.text, given.json); });
  drain.add_option("place", shared->text, "gpu0, host0, ...")->required();
  CLI::App& capacity =
      add(app, chosen, shared, "capacity",
          "limits what a program has at a place; the coldest leaves", [](const Arguments& given) {
            return run_capacity(given.choice, given.text, given.size, given.json);
          });
  capacity.add_option("place", shared->text, "gpu0, host0, ...")->required();
  capacity.add_option("size", shared->size, "such as 20GiB, or none")->required();
  CLI::App& yield = *app.add_subcommand(
      "yield", "takes HBM from a program: its coldest memory leaves, and its capacity falls");
  yield.add_option("pid", shared->choice.pid, "process id of the program")
      ->check(CLI::Range(1, INT_MAX))
      ->required();
  yield.add_option("place", shared->text, "gpu0, gpu1, ...")->required();
  yield.add_option("size", shared->size, "how much to take, such as 20GiB")->required();
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
  unpark.add_option("place", shared->text, "gpu0, gpu1, ...")->required();
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

void add_choice(CLI::App& command, ControlChoice& choice) {
  auto* pid = command.add_option("--pid", choice.pid, "process id of the program")
                  ->check(CLI::Range(1, INT_MAX));
  command
      .add_option("--socket", choice.socket,
                  "control socket of the program; default: the only one found")
      ->excludes(pid);
}

void add_control_subcommands(CLI::App& app, std::function<int()>& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  add_looking(app, chosen, arguments);
  add_acting(app, chosen, arguments);
}

}  // namespace vma
