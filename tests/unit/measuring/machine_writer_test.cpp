// Goal: a machine that is written and read again is unchanged. Method: a round trip for all
// machines that ship; one machine that a file cannot express.
#include "measuring/machine_writer.hpp"

#include "machine/machine_file.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

namespace vma {
namespace {

const std::vector<SourcedNumber> all_guessed = {
    {"granularity_bytes", {SourceKind::estimate, "a \"guess\""}},
    {"host_nodes", {SourceKind::estimate, "g"}},
    {"gpus", {SourceKind::driver, "d"}},
    {"host_link", {SourceKind::measured, "m"}},
    {"costs", {SourceKind::datasheet, "s"}},
};

std::string text_of(const MachineDescription& machine) {
  std::vector<SourcedNumber> sources = all_guessed;
  if (machine.gpus.size() > 1) sources.push_back({"peer_link", {SourceKind::estimate, "g"}});
  if (machine.host_nodes.size() > 1) {
    sources.push_back({"far_host_link", {SourceKind::estimate, "g"}});
  }
  return machine_text(machine, sources);
}

void expect_same(const MachineDescription& one, const MachineDescription& other) {
  EXPECT_EQ(one.name, other.name);
  EXPECT_EQ(one.source, other.source);
  EXPECT_EQ(one.granularity_bytes, other.granularity_bytes);
  EXPECT_EQ(one.junk_fill, other.junk_fill);
  EXPECT_TRUE(one.gpus == other.gpus);
  EXPECT_TRUE(one.host_nodes == other.host_nodes);
  EXPECT_TRUE(one.peer_links == other.peer_links);
  EXPECT_TRUE(one.host_links == other.host_links);
  EXPECT_TRUE(one.costs == other.costs);
}

TEST(MachineWriter, WritesWhatIsReadAgain) {
  for (const std::string& name : machine_names()) {
    SCOPED_TRACE(name);
    const MachineDescription machine = load_machine(name);
    expect_same(machine, parse_machine(text_of(machine), "written"));
  }
}

TEST(MachineWriter, LikeGpusAreOneEntry) {
  EXPECT_EQ(gpu_entries(load_machine("h200x8")).size(), 1u);
  const auto entries = gpu_entries(load_machine("gb200-nvl72"));
  ASSERT_EQ(entries.size(), 36u);  // One per node.
  EXPECT_EQ(entries[1], (std::pair<std::size_t, std::size_t>{2, 2}));
}

TEST(MachineWriter, RefusesLinksThatAFileCannotSay) {
  MachineDescription machine = load_machine("h200x4");
  machine.peer_links[0][1].gb_s = 200;
  EXPECT_THROW(text_of(machine), Error);
  machine = load_machine("gh200x2");
  machine.host_links[1][0].to_gpu_gb_s = 1;
  EXPECT_THROW(text_of(machine), Error);
}

}  // namespace
}  // namespace vma
