#pragma once

#include "tools/vmart/control_client.hpp"

#include <boost/json/object.hpp>

#include <string>

namespace vma {

// Each prints the runtime's answer, as one line of JSON if `as_json`, and returns 0. Throws: as
// ControlClient, and std::runtime_error with the reason if an operation failed.

int run_status(const ControlChoice& choice, bool as_json);

struct MigrateCommand {
  std::string what;  ///< An address, or a tag.
  std::string to;
  bool dry_run = false;
};
int run_migrate(const ControlChoice& choice, const MigrateCommand& command, bool as_json);

int run_drain(const ControlChoice& choice, const std::string& at, bool as_json);
/// The policy of a runtime and the known ones; sets it first if `set` is not empty.
int run_policy(const ControlChoice& choice, const std::string& set, bool as_json);
/// The parameters of a built-in policy, with bounds and defaults. Contacts no runtime.
int run_describe_policy(const std::string& name, bool as_json);
/// "pause", "resume" or "step".
int run_plain(const ControlChoice& choice, const std::string& command, bool as_json);
/// For an address, or for all allocations with a tag.
int run_explain(const ControlChoice& choice, const std::string& what, bool as_json);

enum class StatsForm { table, json, prometheus };
int run_stats(const ControlChoice& choice, StatsForm form);

/// The answer to `stats`: repeats the query until NVML was read, if that has not happened for a
/// while; a second at most. Throws: as ControlClient.
boost::json::object current_stats(ControlClient& client);

}  // namespace vma
