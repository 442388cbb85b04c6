#pragma once

#include "tools/control_client.hpp"

#include <boost/json/object.hpp>

#include <string>

namespace vma {

// Each prints what a runtime answers, and returns 0. Throws: as ControlClient.

int run_status(const ControlChoice& choice);

struct MigrateCommand {
  std::string what;  ///< An address, or a tag.
  std::string to;
  bool dry_run = false;
};
int run_migrate(const ControlChoice& choice, const MigrateCommand& command);

int run_drain(const ControlChoice& choice, const std::string& at);
/// Sets it first if `name` is not empty.
int run_policy(const ControlChoice& choice, const std::string& name);
/// "pause", "resume" or "step".
int run_plain(const ControlChoice& choice, const std::string& command);
int run_explain(const ControlChoice& choice, const std::string& address);

enum class StatsForm { table, json, prometheus };
int run_stats(const ControlChoice& choice, StatsForm form);

/// The answer to `stats`: asks until NVML has been asked, where nobody did so for a while; a second
/// at most. Throws: as ControlClient.
boost::json::object current_stats(ControlClient& client);

}  // namespace vma
