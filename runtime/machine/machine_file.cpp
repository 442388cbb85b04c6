#include "machine/machine_file.hpp"

#include "machine/machine_document.hpp"
#include "machine/machine_folder.hpp"
#include "machine/machine_reader.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {
namespace {

MachineDescription read_or_refuse(const MachineDocument& document) {
  const MachineProblems& problems = document.problems();
  if (problems.empty()) return read_machine(document);
  std::string reason = document.describe(problems.front());
  if (problems.size() > 1) {
    reason += fmt::format(" (and {} more: vmart-lab machine check)", problems.size() - 1);
  }
  throw Error(ErrorKind::invalid_argument, "load_machine", reason);
}

}  // namespace

MachineDescription load_machine(const std::string& name_or_path) {
  return read_or_refuse(MachineDocument::load(find_machine_file(name_or_path, "")));
}

MachineDescription parse_machine(std::string_view text, const std::string& file) {
  return read_or_refuse(MachineDocument::parse(text, file));
}

std::vector<std::string> machine_names() {
  return list_machine_files();
}

}  // namespace vma
