#include "tools/vmart-lab/lab_commands.hpp"

#include "lab/import/python_child.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vma {

void run_experiment(const RunCommand& command) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> arguments{"run", "--program", program};
  if (!command.folder.empty()) arguments.push_back("--out=" + command.folder);
  if (command.jobs > 0) arguments.push_back(fmt::format("--jobs={}", command.jobs));
  for (const std::string& id : command.only) arguments.push_back("--only=" + id);
  if (command.list) arguments.emplace_back("--list");
  if (command.list_files) arguments.emplace_back("--list-files");
  if (command.no_report) arguments.emplace_back("--no-report");
  arguments.insert(arguments.end(), {"--", command.experiment});
  become_python(std::move(arguments));
}

}  // namespace vma
