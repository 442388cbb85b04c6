#include "tools/vmart-lab/lab_commands.hpp"

#include "lab/import/python_child.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

/// A command of the Python program, which calls this one back. `Command`: with `folder` and `jobs`.
template <typename Command>
std::vector<std::string> command_of(const char* name, const Command& command) {
  std::vector<std::string> arguments{name, "--program",
                                     std::filesystem::read_symlink("/proc/self/exe").string()};
  if (!command.folder.empty()) arguments.push_back("--out=" + command.folder);
  if (command.jobs > 0) arguments.push_back(fmt::format("--jobs={}", command.jobs));
  return arguments;
}

}  // namespace

void run_experiment(const RunCommand& command) {
  std::vector<std::string> arguments = command_of("run", command);
  for (const std::string& id : command.only) arguments.push_back("--only=" + id);
  if (command.list) arguments.emplace_back("--list");
  if (command.list_files) arguments.emplace_back("--list-files");
  if (command.no_report) arguments.emplace_back("--no-report");
  arguments.insert(arguments.end(), {"--", command.experiment});
  become_python(std::move(arguments));
}

void reproduce_figures(const ReproduceCommand& command) {
  std::vector<std::string> arguments = command_of("reproduce", command);
  if (!command.table.empty()) arguments.push_back("--from=" + command.table);
  if (!command.source.empty()) arguments.push_back("--source=" + command.source);
  for (const std::string& policy : command.policies) arguments.push_back("--policy=" + policy);
  if (command.within) arguments.push_back(fmt::format("--within={}", *command.within));
  if (command.smoke) arguments.emplace_back("--smoke");
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), command.names.begin(), command.names.end());
  become_python(std::move(arguments));
}

}  // namespace vma
