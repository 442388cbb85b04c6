#pragma once

#include "tools/vmart/control_client.hpp"

#include <boost/json/object.hpp>

#include <string>
#include <vector>

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

}  // namespace vma
