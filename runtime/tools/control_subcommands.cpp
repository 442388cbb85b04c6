#include "tools/control_subcommands.hpp"

#include "tools/control_commands.hpp"
#include "tools/follow_events.hpp"
#include "tools/top.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <utility>

namespace vma {
namespace {

/// What the subcommands parse into; one command is given, so they share it.
struct Arguments {
  ControlChoice choice;
  MigrateCommand migrate;
  std::string text;
  bool follow = false, json = false, prometheus = false;
  double interval_s = 1;
};

using Shared = std::shared_ptr<Arguments>;

template <typename Run>
CLI::App& add(CLI::App& app, std::function<int()>& chosen, const Shared& arguments,
              const char* name, const char* meaning, Run run) {
  CLI::App& command = *app.add_subcommand(name, meaning);
  add_choice(command, arguments->choice);
  command.callback(
      [&chosen, arguments, run] { chosen = [arguments, run] { return run(*arguments); }; });
  return command;
}

void add_looking(CLI::App& app, std::function<int()>& chosen, const Shared& shared) {
  add(app, chosen, shared, "status", "says what a running program's runtime does",
      [](const Arguments& given) { return run_status(given.choice); });
  CLI::App& explain =
      add(app, chosen, shared, "explain", "says why a chunk lies where it lies",
          [](const Arguments& given) { return run_explain(given.choice, given.text); });
  explain.add_option("address", shared->text, "of the chunk or its allocation")->required();
  CLI::App& events =
      add(app, chosen, shared, "events", "shows what happened lately",
          [](const Arguments& given) { return run_events(given.choice, given.follow); });
  events.add_flag("--follow", shared->follow, "and what happens from now on");
  CLI::App& stats =
      add(app, chosen, shared, "stats", "shows the runtime's counters", [](const Arguments& given) {
        const StatsForm form = given.json         ? StatsForm::json
                               : given.prometheus ? StatsForm::prometheus
                                                  : StatsForm::table;
        return run_stats(given.choice, form);
      });
  auto* json = stats.add_flag("--json", shared->json, "as one JSON object");
  stats.add_flag("--prometheus", shared->prometheus, "in Prometheus's text format")->excludes(json);
  CLI::App& top =
      add(app, chosen, shared, "top", "shows places, moves and events, live",
          [](const Arguments& given) { return run_top(given.choice, given.interval_s); });
  top.add_option("--interval", shared->interval_s, "seconds between two pictures")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

void add_acting(CLI::App& app, std::function<int()>& chosen, const Shared& shared) {
  CLI::App& migrate =
      add(app, chosen, shared, "migrate", "moves an allocation, and says how it went",
          [](const Arguments& given) { return run_migrate(given.choice, given.migrate); });
  migrate.add_option("what", shared->migrate.what, "an address, or a tag")->required();
  migrate.add_option("to", shared->migrate.to, "gpu0, host0, ...")->required();
  migrate.add_flag("--dry-run", shared->migrate.dry_run, "only predict what it would cost");
  CLI::App& drain =
      add(app, chosen, shared, "drain", "moves everything away from a place, until `resume`",
          [](const Arguments& given) { return run_drain(given.choice, given.text); });
  drain.add_option("place", shared->text, "gpu0, host0, ...")->required();
  CLI::App& policy =
      add(app, chosen, shared, "policy", "shows the policy and the known ones, or sets it",
          [](const Arguments& given) { return run_policy(given.choice, given.text); });
  policy.add_option("name", shared->text, "name:parameter=value,...");
  const std::pair<const char*, const char*> plain[] = {
      {"pause", "stops the scheduler from moving anything"},
      {"resume", "lets it move again"},
      {"step", "makes one tick while it is paused"}};
  for (const auto& [name, meaning] : plain) {
    add(app, chosen, shared, name, meaning, [name = std::string(name)](const Arguments& given) {
      return run_plain(given.choice, name);
    });
  }
}

}  // namespace

void add_choice(CLI::App& command, ControlChoice& choice) {
  auto* pid = command.add_option("--pid", choice.pid, "the program's process number")
                  ->check(CLI::PositiveNumber);
  command.add_option("--socket", choice.socket, "its control socket; default: the only one found")
      ->excludes(pid);
}

void add_control_subcommands(CLI::App& app, std::function<int()>& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  add_looking(app, chosen, arguments);
  add_acting(app, chosen, arguments);
}

}  // namespace vma
