#include "machine/machine_folder.hpp"

#include "base/environment.hpp"
#include "machine/shared_folders.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>
#include <utility>

namespace vma {
namespace {

namespace fs = std::filesystem;

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  if (const auto set = environment_text("VMART_MACHINES")) found.emplace_back(*set);
  for (fs::path& folder : shared_folders("machines")) found.push_back(std::move(folder));
  return found;
}

}  // namespace

std::string find_machine_file(const std::string& name, const std::string& referrer) {
  if (is_path(name)) return name;
  std::vector<fs::path> searched = folders();
  if (is_path(referrer)) searched.push_back(fs::path(referrer).parent_path());
  std::vector<std::string> texts;
  for (const fs::path& folder : searched) {
    const fs::path file = folder / (name + ".json");
    std::error_code failed;
    if (fs::is_regular_file(file, failed)) return file.lexically_normal().string();
    texts.push_back(folder.lexically_normal().string());
  }
  throw Error(ErrorKind::invalid_argument, "load_machine",
              fmt::format("no machine file \"{}.json\" in {}; known: {}", name,
                          fmt::join(texts, ", "), fmt::join(list_machine_files(), " ")));
}

std::vector<std::string> list_machine_files() {
  std::set<std::string> names;
  for (const fs::path& folder : folders()) {
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
      if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace vma
