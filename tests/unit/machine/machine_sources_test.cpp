// Goal: every number in a machine file names its source, and the document lists every key that a
// file may have. Method: small texts with one wrong source each; the files that ship; the table in
// the document compared with the keys.

#include "machine/machine_file.hpp"
#include "machine/machine_schema.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

/// A file with these sources.
std::string machine_of(const std::string& sources, const std::string& costs = R"({"map_us": 3})") {
  return R"({
  "name": "lone", "source": "a test",
  "sources": )" +
         sources + R"(,
  "granularity_bytes": 4096,
  "host_nodes": [{"memory_mib": 16}],
  "gpus": [{"name": "G", "memory_mib": 8, "multiprocessors": 4, "compute_capability": 90,
            "copy_engines": 2, "hardware_queues": 8, "host_node": 0, "local_gb_s": 100}],
  "host_link": {"to_gpu_gb_s": 5, "from_gpu_gb_s": 6},
  "costs": )" +
         costs + "\n}\n";
}

const std::string all_but_costs = R"("granularity_bytes": "driver: d", "host_nodes": "estimate: e",
  "gpus[0]": "datasheet: s", "gpus[0].local_gb_s": "measured: m", "host_link": "measured: m")";

std::vector<std::string> problems_of(const std::string& text) {
  return MachineDocument::parse(text, "some/file.json").problems();
}

const NumberSource& source_of(const MachineDocument& document, const std::string& path) {
  const auto& numbers = document.numbers();
  const auto found = std::ranges::find(numbers, path, &SourcedNumber::path);
  if (found == numbers.end()) throw std::runtime_error("no number " + path);
  return found->source;
}

TEST(MachineSources, TheLongestPathIsTheNumbersOwn) {
  const auto document =
      MachineDocument::parse(machine_of("{" + all_but_costs + R"(, "costs": "estimate: c"})"), "f");
  ASSERT_TRUE(document.problems().empty()) << document.problems().front();
  EXPECT_EQ(source_of(document, "gpus[0].memory_mib").kind, SourceKind::datasheet);
  EXPECT_EQ(source_of(document, "gpus[0].local_gb_s").kind, SourceKind::measured);
  EXPECT_EQ(source_of(document, "host_nodes[0].memory_mib").kind, SourceKind::estimate);
  EXPECT_EQ(source_of(document, "costs.map_us").from, "c");
}

TEST(MachineSources, ANumberWithoutOneIsRefusedWhereItStands) {
  const auto problems = problems_of(machine_of("{" + all_but_costs + "}"));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].find("some/file.json: costs.map_us: has no source"), 0u) << problems[0];
  EXPECT_THROW(parse_machine(machine_of("{" + all_but_costs + "}"), "f"), Error);
}

TEST(MachineSources, AnEntryThatSaysNothingIsRefused) {
  const struct {
    const char *entry, *says;
  } wrong[] = {
      {R"("gpus[1]": "driver: d")", "sources.gpus[1]: names a key that does not exist"},
      {R"("peer_link": "driver: d")", "sources.peer_link: names a key that does not exist"},
      {R"("host_nodes[0]": "guess: g")", R"(sources.host_nodes[0]: is not "KIND: SOURCE")"},
      {R"("host_nodes[0]": "measured")", R"(is not "KIND: SOURCE")"},
      {R"("host_nodes[0]": "measured: ")", R"(is not "KIND: SOURCE")"},
      {R"("host_nodes[0]": "made up: m")", R"(is not "KIND: SOURCE")"},
      {R"("host_nodes[0]": 3)", R"(is not "KIND: SOURCE")"},
      {R"("costs": "driver: d")", "line 4: sources.costs: appears twice"},
  };
  for (const auto& it : wrong) {
    SCOPED_TRACE(it.entry);
    const auto problems = problems_of(
        machine_of("{" + all_but_costs + R"(, "costs": "estimate: c", )" + it.entry + "}"));
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_NE(problems[0].find(it.says), std::string::npos) << problems[0];
  }
  EXPECT_NE(problems_of(machine_of("[]")).front().find("sources: is not an object"),
            std::string::npos);
}

TEST(MachineSources, OnlyMachinesForTestsMayBeMadeUp) {
  std::string text = machine_of("\"made up\"");
  const auto problems = problems_of(text);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find(R"(sources: "made up" is only for test machines)"), std::string::npos);
  text.replace(text.find("lone"), 4, "test-lone");
  const auto document = MachineDocument::parse(text, "f");
  ASSERT_TRUE(document.problems().empty());
  EXPECT_EQ(source_of(document, "costs.map_us").kind, SourceKind::made_up);
}

TEST(MachineSources, CostsOfOtherGpusNeedASourceOfTheirOwn) {
  const std::string start = "{" + all_but_costs;
  const auto problems = problems_of(machine_of(start + "}", "\"h200x2\""));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("costs: are those of other GPUs"), std::string::npos) << problems[0];
  const auto document = MachineDocument::parse(
      machine_of(start + R"(, "costs": "estimate: c", "costs.map_us": "measured: m"})",
                 "\"h200x2\""),
      "f");
  ASSERT_TRUE(document.problems().empty()) << document.problems().front();
  EXPECT_EQ(source_of(document, "costs.create.us").kind, SourceKind::estimate);
  EXPECT_EQ(source_of(document, "costs.map_us").kind, SourceKind::measured);
}

TEST(MachineSources, CostsOfTheSameGpusKeepTheirs) {
  const auto load = [](const char* name) { return MachineDocument::load(find_machine_file(name)); };
  const MachineDocument two = load("h200x2"), four = load("h200x4"), eight = load("h200x8");
  EXPECT_EQ(source_of(four, "costs.unmap.us").from, source_of(two, "costs.unmap.us").from);
  EXPECT_EQ(source_of(four, "costs.open_context_us").kind, SourceKind::estimate);
  EXPECT_EQ(source_of(eight, "costs.create.us").kind, SourceKind::measured);
  EXPECT_EQ(source_of(eight, "costs.unmap.us").kind, SourceKind::estimate);
}

TEST(MachineSources, EveryFileThatShipsHasThemAll) {
  for (const std::string& name : machine_names()) {
    SCOPED_TRACE(name);
    const MachineDocument document = MachineDocument::load(find_machine_file(name));
    for (const std::string& problem : document.problems()) ADD_FAILURE() << problem;
    EXPECT_GT(document.numbers().size(), 10u);
    for (const SourcedNumber& number : document.numbers()) {
      EXPECT_EQ(number.source.kind == SourceKind::made_up, name.starts_with("test-"))
          << number.path;
    }
  }
}

TEST(MachineDocument, NamesEveryProblem) {
  std::string text = machine_of("{" + all_but_costs + "}");
  text.replace(text.find("\"memory_mib\": 16"), 16, "\"memory_mib\": 0, \"colour\": 1");
  text.replace(text.find("\"copy_engines\": 2"), 17, "\"copy_engines\": 2.5");
  text.replace(text.rfind("\"host_link\""), 11, "\"host_lunk\"");
  const auto problems = problems_of(text);
  const char* const wanted[] = {
      "host_nodes[0].memory_mib: 0 is not between",
      "host_nodes[0].colour: is not a known key",
      "gpus[0].copy_engines: is not a whole number",
      "host_lunk: is not a known key",
      "host_link: is missing",
      "sources.host_link: names a key",
      "costs.map_us: has no source",
  };
  ASSERT_EQ(problems.size(), std::size(wanted));
  for (std::size_t i = 0; i < problems.size(); ++i) {
    EXPECT_EQ(problems[i].find(std::string("some/file.json: ") + wanted[i]), 0u) << problems[i];
  }
}

/// "1 to 64", or empty for keys without numbers: the third column of the table in the document.
std::string bounds_of(const MachineKey& key) {
  if (key.bounds.most == 0) return "";
  return fmt::format("{} to {}", key.bounds.least, key.bounds.most);
}

TEST(MachineKeys, TheDocumentHasARowForEach) {
  std::ifstream stream(VMART_MACHINE_DOCUMENT);
  std::ostringstream text;
  text << stream.rdbuf();
  const std::string document = text.str();
  ASSERT_NE(document.find("## The format of a machine file"), std::string::npos);
  for (const MachineKey& key : machine_keys()) {
    const std::string row =
        fmt::format("\n| `{}` | {} | {} | ", key.path, key.bounds.unit, bounds_of(key));
    EXPECT_NE(document.find(row), std::string::npos) << row;
  }
}

TEST(MachineKeys, AreEachThereOnce) {
  std::set<std::string_view> paths;
  for (const MachineKey& key : machine_keys())
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
}

}  // namespace
}  // namespace vma
