#pragma once

#include "tools/vmart/control_client.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace vma {

// Each prints the runtime's answer, as one line of JSON if `as_json`, and returns 0. Throws: like
// ControlClient, and std::runtime_error with the reason if an operation failed.

int run_status(const ControlChoice& choice, bool as_json);

struct MigrateCommand {
  std::vector<std::string> what_and_to;  ///< Selectors, and then a place.
  bool dry_run = false;
};
int run_migrate(const ControlChoice& choice, const MigrateCommand& command, bool as_json);

int run_drain(const ControlChoice& choice, const std::string& at, bool as_json);
/// Limits what the runtime has at a place to `size`, such as "20GiB", or to nothing: "none".
int run_capacity(const ControlChoice& choice, const std::string& at, const std::string& size,
                 bool as_json);
/// Takes so much of a place from the runtime: lowers its capacity to what it has there, less that.
int run_yield(const ControlChoice& choice, const std::string& at, const std::string& size,
              bool as_json);
/// Moves all memory out of HBM and keeps it out: the capacity of each GPU becomes 0.
int run_park(const ControlChoice& choice, bool as_json);
/// Removes the capacities of all GPUs, and moves all memory to one of them.
int run_unpark(const ControlChoice& choice, const std::string& to, bool as_json);
/// Prints the policy of a runtime and the available ones. Sets the policy first unless `set` is
/// empty.
int run_policy(const ControlChoice& choice, const std::string& set, bool as_json);
/// Prints the parameters of a built-in policy, with bounds and defaults. Contacts no runtime.
int run_describe_policy(const std::string& name, bool as_json);
/// `command` is "pause", "resume" or "step".
int run_plain(const ControlChoice& choice, const std::string& command, bool as_json);
/// `what` is an address of a chunk or allocation, or another selector of allocations.
int run_explain(const ControlChoice& choice, const std::string& what, bool as_json);

enum class StatsForm { table, json, prometheus };
int run_stats(const ControlChoice& choice, StatsForm form);

/// The answer to `stats`. If NVML was not read for a while, repeats the query until it was, for a
/// second at most. Throws: like ControlClient.
boost::json::object current_stats(ControlClient& client);

struct WhereCommand {
  std::string what;    ///< Empty: all.
  bool sites = false;  ///< Also where the program allocated them; JSON has that in any case.
  bool json = false;
};

/// Prints a runtime's allocations, or where the bytes of those that `what` selects are. Returns 0.
/// Throws: like ControlClient.
int run_where(const ControlChoice& choice, const WhereCommand& command);

/// Allocations that `what` selects; all if it is empty. Throws: like ControlClient.
boost::json::array list_allocations(ControlClient& client, const std::string& what);

/// Sort key of the places of `vmart top`. Descending, except by name.
enum class TopSort { place, used, share, demand };
/// "place", "used", "share" or "demand".
TopSort top_sort_of(const std::string& name);

struct TopOptions {
  double interval_s = 1;
  TopSort sort = TopSort::place;
  bool json = false;
};

/// Shows the state of the chosen runtime, or of the only one; if there are several, one row of
/// each. Does so until `q` is pressed, fitted to the terminal. Shows it
/// only once if the output is not a terminal, or as JSON. Returns 0. Throws: like ControlClient.
int run_top(const ControlChoice& choice, const TopOptions& options);

/// Reads a runtime's events in order, about as fast as a person can read.
class EventFollower {
 public:
  /// Starts after the event `since`.
  EventFollower(ControlClient& client, std::uint64_t since) : client_(client), since_(since) {}

  /// Returns new events, at most one page. Reports lost events on standard error.
  boost::json::array next();
  /// Blocks: until it makes sense to ask again.
  void wait();

 private:
  ControlClient& client_;
  std::uint64_t since_;
  bool more_ = false;
};

struct EventsCommand {
  std::uint64_t since = 0;  ///< Only events with a higher number.
  bool follow = false, json = false;
};

/// Prints the events that the runtime remembers, and new ones forever if it follows. JSON output is
/// one object, or one object per line if it follows. Returns 0.
int run_events(const ControlChoice& choice, const EventsCommand& command);

/// Adds the subcommands that query a running program. Parsing one of them sets `chosen` to the
/// function to run; otherwise `chosen` is unchanged.
void add_control_subcommands(CLI::App& app, std::function<int()>& chosen);

}  // namespace vma
