// Goal: every machine file that ships loads and matches its name; a file with any error is refused
// with the file, the place and the reason. Method: small texts with one error each.
#include "machine/machine_file.hpp"

#include "base/units.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace vma {
namespace {

/// A valid file as text, with one part replaced.
std::string machine_with(const std::string& piece, const std::string& replacement) {
  std::string text = R"({
  "name": "test-small", "source": "a test", "sources": "made up", "granularity_bytes": 4096,
  "host_nodes": [{"memory_mib": 16}],
  "gpus": [{"count": 2, "name": "G", "memory_mib": 8, "multiprocessors": 4,
            "compute_capability": 90, "copy_engines": 2, "hardware_queues": 8, "host_node": 0,
            "local_gb_s": 100}],
  "peer_link": {"kind": "nvlink", "gb_s": 20},
  "host_link": {"to_gpu_gb_s": 5, "from_gpu_gb_s": 6},
  "costs": {"map_us": 3, "unmap": {"sizes_mib": [1, 2], "gpus": [2, 4], "us": [[1, 2], [3, 4]]}}
})";
  if (piece.empty()) return text;
  const auto at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), replacement);
}

std::string file_refusal(const std::string& text) {
  try {
    parse_machine(text, "some/file.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "(not refused)";
}

TEST(MachineFile, ReadsWhatItSays) {
  const MachineDescription machine = parse_machine(machine_with("", ""), "f");
  EXPECT_EQ(machine.name, "test-small");
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[1].memory_bytes, 8 * MiB);
  EXPECT_EQ(machine.peer_links[0][0].kind, LinkKind::same);
  EXPECT_EQ(machine.peer_links[0][1].kind, LinkKind::nvlink);
  EXPECT_EQ(machine.peer_links[0][1].both_ways_gb_s, 0);
  EXPECT_EQ(machine.host_links[1][0].from_gpu_gb_s, 6);
  EXPECT_FALSE(machine.host_links[1][0].native_atomics);
  EXPECT_EQ(machine.costs.map_us, 3);
  EXPECT_EQ(machine.costs.unmap.us[1][0], 3);
}

TEST(MachineFile, SaysWhatKernelsGetBothWaysOverNvlink) {
  const MachineDescription machine =
      parse_machine(machine_with("\"gb_s\": 20", "\"gb_s\": 20, \"both_ways_gb_s\": 33.5"), "f");
  EXPECT_EQ(machine.peer_links[0][1].both_ways_gb_s, 33.5);
  EXPECT_EQ(machine.peer_links[1][1].both_ways_gb_s, 0);
}

TEST(MachineFile, EveryMachineThatShipsLoadsUnderItsName) {
  const auto names = machine_names();
  for (const char* name : {"h200x1", "h200x2", "h200x4", "h200x8", "gh200", "gh200x2",
                           "gb200-nvl72", "pcie4x4", "test-2", "test-4", "test-islands"}) {
    SCOPED_TRACE(name);
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end());
    EXPECT_EQ(load_machine(name).name, name);
  }
  EXPECT_EQ(load_machine("gb200-nvl72").gpus.size(), 72u);
  EXPECT_EQ(load_machine("gb200-nvl72").gpus[71].host_node, 35);
  EXPECT_EQ(load_machine("h200x8").costs.grant_later.us,
            load_machine("h200x2").costs.grant_later.us);
}

TEST(MachineFile, IslandsReachOnlyTheirOwn) {
  const MachineDescription machine = load_machine("test-islands");
  EXPECT_EQ(machine.peer_links[0][1].kind, LinkKind::nvlink);
  EXPECT_EQ(machine.peer_links[1][2].kind, LinkKind::none);
  EXPECT_EQ(machine.peer_links[3][2].kind, LinkKind::nvlink);
}

TEST(MachineFile, OnGraceTheHostIsFasterThanAPeer) {
  const MachineDescription machine = load_machine("gh200x2");
  EXPECT_GT(machine.host_links[1][1].to_gpu_gb_s, machine.peer_links[0][1].gb_s);
  EXPECT_LT(machine.host_links[1][0].to_gpu_gb_s, machine.host_links[1][1].to_gpu_gb_s);
  EXPECT_TRUE(machine.host_links[1][0].native_atomics);
  EXPECT_FALSE(load_machine("h200x2").host_links[1][0].native_atomics);
}

TEST(MachineFile, RefusesByPlaceAndReason) {
  const struct {
    const char *piece, *replacement, *says;
  } wrong[] = {
      {"\"name\": \"test-small\",", "", "name: is missing"},
      {"\"name\": \"test-small\"", "\"name\": 3", "name: must be a string"},
      {"\"memory_mib\": 8", "\"memory_mib\": 0", "gpus[0].memory_mib: 0 is not between"},
      {"\"memory_mib\": 8", "\"memory_mib\": -8", "gpus[0].memory_mib: -8 is not between"},
      {"\"memory_mib\": 8", "\"memory_mib\": 8.5", "gpus[0].memory_mib: is not a whole number"},
      {"\"memory_mib\": 8", "\"memory_mib\": 1e300", "gpus[0].memory_mib: is not a whole number"},
      {"\"memory_mib\": 8", "\"memory_mib\": 99999999999",
       "gpus[0].memory_mib: 99999999999 is not between 1 and 67108864"},
      {"\"memory_mib\": 8", "\"memory_mib\": 8, \"colour\": 1",
       "gpus[0].colour: is not a known key"},
      {"\"granularity_bytes\": 4096", "\"granularity_bytes\": 5000", "is not a power of two"},
      {"\"kind\": \"nvlink\"", "\"kind\": \"string\"",
       "\"string\" is not one of nvlink, pcie, none"},
      {"\"gb_s\": 20", "\"gb_s\": 0", "peer_link.gb_s: 0 is not between"},
      {"\"gb_s\": 20", "\"gb_s\": 20, \"both_ways_gb_s\": 19.9",
       "peer_link.both_ways_gb_s: is less than gb_s"},
      {"\"gb_s\": 20", "\"gb_s\": 20, \"both_ways_gb_s\": 2e6",
       "peer_link.both_ways_gb_s: 2000000 is not between"},
      {"\"gb_s\": 20", "\"gb_s\": 20, \"both_ways_gb_s\": \"664\"",
       "peer_link.both_ways_gb_s: is not a number"},
      {"\"nvlink\", \"gb_s\": 20", "\"pcie\", \"gb_s\": 20, \"both_ways_gb_s\": 30",
       "peer_link.both_ways_gb_s: is allowed only for NVLink"},
      {"\"nvlink\", \"gb_s\": 20", "\"none\", \"both_ways_gb_s\": 30",
       "peer_link.both_ways_gb_s: is allowed only for NVLink"},
      {"\"host_node\": 0", "\"host_node\": 1", "gpus[0].host_node: 1 is not between 0 and 0"},
      {"\"costs\"", "\"reachable\": [[true]], \"costs\"", "reachable: has 1 rows for 2 GPUs"},
      {"\"costs\"", "\"reachable\": [[true, true], [true]], \"costs\"",
       "reachable[1]: is not a row of 2"},
      {"\"costs\"", "\"reachable\": [[true, 1], [true, true]], \"costs\"",
       "reachable[0][1]: must be true or false"},
      {"\"costs\"", "\"reachable\": [[false, true], [true, true]], \"costs\"",
       "cannot reach itself"},
      {"[[1, 2], [3, 4]]", "[[1, 2], [3]]", "costs.unmap.us: has a row whose length differs"},
      {"[[1, 2], [3, 4]]", "[[1, 2]]", "costs.unmap.us: does not have a row for each"},
      {"[1, 2], \"gpus\"", "[2, 1], \"gpus\"", "costs.unmap.sizes_mib: is empty or does not grow"},
      {"[1, 2], \"gpus\"", "[1, 1], \"gpus\"", "costs.unmap.sizes_mib: is empty or does not grow"},
      {"\"gpus\": [2, 4]", "\"gpus\": []", "costs.unmap.gpus: is empty or does not grow"},
      {"\"gpus\": [2, 4]", "\"gpus\": 2", "costs.unmap.gpus: is not a list"},
      {"\"map_us\": 3", "\"map_us\": -3", "costs.map_us: -3 is not between"},
      {"\"map_us\": 3", "\"mop_us\": 3", "costs.mop_us: is not a known key"},
      {"\"source\"", "\"peer_link.kind\": \"none\", \"source\"",
       "peer_link.kind: is not a known key"},  // Not the one of the object.
      {"\"count\": 2", "\"count\": 200", "gpus[0].count: 200 is not between 1 and 128"},
      {"\"host_nodes\": [{\"memory_mib\": 16}]", "\"host_nodes\": []",
       "host_nodes: contains 0 nodes"},
      {"\"map_us\": 3,", "\"map_us\": 3,,", "line 9: "},
      {"\"map_us\": 3", "\"map_us\": 3, \"map_us\": 4", "line 9: costs.map_us: appears twice"},
      {"\"sources\": \"made up\",", "", "sources: is missing"},
      {"\"peer_link\": {\"kind\": \"nvlink\", \"gb_s\": 20},", "", "peer_link: is missing"},
      {"\"gb_s\": 20", "\"native_atomics\": true", "peer_link.gb_s: is missing"},
      {"\"nvlink\"", "\"none\"", "peer_link.gb_s: is not allowed here"},
      {"\"host_node\": 0", "\"host_node\": 0, \"gpus_per_host_node\": 1",
       "gpus[0].gpus_per_host_node: there are fewer host nodes"},
      {"\"source\": \"a test\"", "\"source\": \"\"", "source: is empty"},
  };
  for (const auto& it : wrong) {
    SCOPED_TRACE(it.replacement);
    const std::string what = file_refusal(machine_with(it.piece, it.replacement));
    EXPECT_NE(what.find("some/file.json"), std::string::npos) << what;
    EXPECT_NE(what.find(it.says), std::string::npos) << what;
  }
  EXPECT_NE(file_refusal("").find("line 1"), std::string::npos) << file_refusal("");
  EXPECT_NE(file_refusal("[]").find("is not an object"), std::string::npos) << file_refusal("[]");
  EXPECT_NE(file_refusal(machine_with("", "") + "x").find("line 10"), std::string::npos);
}

TEST(MachineFile, AnUnknownNameListsWhatIsKnown) {
  try {
    load_machine("h300x9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("h200x2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(load_machine("./no/such.json"), Error);
}

TEST(MachineFile, TheFolderOfTheVariableComesFirst) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "/h200x1.json") << machine_with("", "");
  ASSERT_EQ(setenv("VMART_MACHINES", folder.c_str(), 1), 0);
  EXPECT_EQ(load_machine("h200x1").name, "test-small");
  unsetenv("VMART_MACHINES");
  EXPECT_EQ(load_machine(folder + "/h200x1.json").name, "test-small");
  EXPECT_EQ(load_machine("h200x1").name, "h200x1");
  std::remove((folder + "/h200x1.json").c_str());
}

TEST(MachineFile, CostsThatNameEachOtherInACircleAreRefused) {
  const std::string path = testing::TempDir() + "/circle.json";
  std::string text = machine_with("", "");
  text.replace(text.find("\"costs\""), std::string::npos, "\"costs\": \"circle\"}");
  std::ofstream(path) << text;
  EXPECT_THROW(load_machine(path), Error);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace vma
