#include "tools/vmart-lab/lab_probe.hpp"

#include "base/whole_file.hpp"
#include "machine/machine_document.hpp"
#include "measuring/machine_probe.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vma {

namespace {

constexpr const char* call = "vmart-lab machine probe";
const WholeFile::Terms terms{call, ErrorKind::invalid_argument, 0644};

}  // namespace

int run_probe(const ProbeCommand& command) {
  // Fails now rather than after minutes of measuring.
  WholeFile::require_possible(command.output, terms);
  RuntimeOptions options;
  options.driver = command.driver;
  MachineProbe::Options probe;
  probe.name = command.name;
  probe.say = [](const std::string& what) { fmt::print(stderr, "vmart-lab: {}\n", what); };
  const std::string text =
      MachineProbe(open_driver(resolve_settings(options).driver), std::move(probe)).run();
  const MachineDocument document = MachineDocument::parse(text, command.output);
  if (!document.problems().empty()) {
    throw Error(ErrorKind::invalid_argument, call,
                "the result is not a valid machine file: " +
                    document.describe(document.problems().front()));
  }
  WholeFile file(command.output, terms);
  file.write(text);
  file.become(command.output);
  fmt::print("{}: {} numbers\n", command.output, document.numbers().size());
  return 0;
}

}  // namespace vma
