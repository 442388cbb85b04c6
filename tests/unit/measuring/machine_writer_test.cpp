// Goal: a machine that is written and read again is unchanged. Method: a round trip for all
// machines that ship; one machine that a file cannot express.
#include "measuring/machine_writer.hpp"

#include "machine/cost_members.hpp"
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

void expect_same_costs(const CostParameters& one, const CostParameters& other) {
  for (const auto& it : cost_numbers()) EXPECT_EQ(one.*it.member, other.*it.member) << it.key;
  for (const auto& it : cost_sizes()) EXPECT_EQ(one.*it.member, other.*it.member) << it.key;
  for (const auto& it : cost_tables()) {
    const CostTable &table = one.*it.member, &same = other.*it.member;
    EXPECT_EQ(table.sizes_mib, same.sizes_mib) << it.key;
    EXPECT_EQ(table.gpus, same.gpus) << it.key;
    EXPECT_EQ(table.us, same.us) << it.key;
    const bool there = !table.us.empty();
    EXPECT_TRUE(!there || table.floor_us == same.floor_us) << it.key;
  }
}

void expect_same(const MachineDescription& one, const MachineDescription& other) {
  EXPECT_EQ(one.name, other.name);
  EXPECT_EQ(one.source, other.source);
  EXPECT_EQ(one.granularity_bytes, other.granularity_bytes);
  EXPECT_EQ(one.junk_fill, other.junk_fill);
  ASSERT_EQ(one.gpus.size(), other.gpus.size());
  ASSERT_EQ(one.host_nodes.size(), other.host_nodes.size());
  for (std::size_t node = 0; node < one.host_nodes.size(); ++node) {
    EXPECT_EQ(one.host_nodes[node].memory_bytes, other.host_nodes[node].memory_bytes);
  }
  for (std::size_t gpu = 0; gpu < one.gpus.size(); ++gpu) {
    SCOPED_TRACE(gpu);
    EXPECT_EQ(one.gpus[gpu].name, other.gpus[gpu].name);
    EXPECT_EQ(one.gpus[gpu].memory_bytes, other.gpus[gpu].memory_bytes);
    EXPECT_EQ(one.gpus[gpu].host_node, other.gpus[gpu].host_node);
    EXPECT_EQ(one.gpus[gpu].local_gb_s, other.gpus[gpu].local_gb_s);
    for (std::size_t to = 0; to < one.gpus.size(); ++to) {
      const PeerLink &link = one.peer_links[gpu][to], &same = other.peer_links[gpu][to];
      EXPECT_EQ(link.kind, same.kind);
      EXPECT_EQ(link.gb_s, same.gb_s);
      EXPECT_EQ(link.native_atomics, same.native_atomics);
      EXPECT_EQ(link.both_ways_gb_s, same.both_ways_gb_s);
    }
    for (std::size_t node = 0; node < one.host_nodes.size(); ++node) {
      const HostLink &link = one.host_links[gpu][node], &same = other.host_links[gpu][node];
      EXPECT_EQ(link.to_gpu_gb_s, same.to_gpu_gb_s);
      EXPECT_EQ(link.from_gpu_gb_s, same.from_gpu_gb_s);
      EXPECT_EQ(link.native_atomics, same.native_atomics);
    }
  }
  expect_same_costs(one.costs, other.costs);
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
