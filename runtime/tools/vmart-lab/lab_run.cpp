#include "tools/vmart-lab/lab_commands.hpp"

#include "tools/vmart-lab/python_module.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace vma {

int run_experiment(const RunCommand& command) {
  std::vector<std::string> arguments{"run", "--program", own_program()};
  if (!command.folder.empty()) arguments.push_back("--out=" + command.folder);
  if (command.jobs > 0) arguments.push_back(fmt::format("--jobs={}", command.jobs));
  for (const std::string& id : command.only) arguments.push_back("--only=" + id);
  if (command.list) arguments.emplace_back("--list");
  if (command.list_files) arguments.emplace_back("--list-files");
  if (command.no_report) arguments.emplace_back("--no-report");
  arguments.insert(arguments.end(), {"--", command.experiment});
  return become_python_module(std::move(arguments));
}

}  // namespace vma
