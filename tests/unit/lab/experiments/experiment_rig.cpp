#include "unit/lab/experiments/experiment_rig.hpp"

#include "lab/experiments/experiment_reader.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace vma {

namespace fs = std::filesystem;

ExperimentRig::ExperimentRig(std::string_view text) {
  write(text);
}

void ExperimentRig::write(std::string_view text) const {
  std::ofstream(folder_ / "experiment.json", std::ios::binary) << text;
}

RunOutcome ExperimentRig::run(const std::string& folder, std::size_t threads,
                              const std::vector<std::string>& only) {
  const Experiment experiment = read_experiment(folder_ / "experiment.json");
  return ExperimentRun(experiment, {folder_ / folder, threads, only}, executor_, watcher).run();
}

std::map<std::string, std::string> ExperimentRig::results(const std::string& folder) const {
  std::map<std::string, std::string> files;
  const fs::path top = folder_ / folder;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
    const std::string name = fs::relative(entry.path(), top).string();
    std::ifstream file(entry.path(), std::ios::binary);
    files[name] =
        entry.is_directory() ? "a folder" : std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

}  // namespace vma
