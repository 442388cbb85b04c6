// Goal: costs come from the stored calibration, otherwise from a machine description, otherwise
// from the links; the capacity of a place is the bytes that chunks may fill. Method: simulated
// machines and temporary folders.
#include "costs/cost_source.hpp"

#include "base/units.hpp"
#include "costs/calibration_file.hpp"
#include "costs/cost_estimates.hpp"
#include "machine/machine_file.hpp"
#include "runtime/place_states.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"
#include "support/drivers/trace_driver.hpp"
#include "unit/costs/cache_folder.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

PlaceId numbered(std::size_t place) {
  return PlaceId{static_cast<std::uint8_t>(place)};
}

struct CostSourceTest : testing::Test {
  CacheFolder folder;
  SimDriver machine{load_machine("h200x2")};
  TraceDriver decorated{machine, 1};  // `machine_of` does not see that this one is simulated.
  Topology topology = Topology::discover(machine, {});

  /// A calibration ready to be stored; one unusual rate makes it recognisable.
  Calibration calibration() {
    Calibration made;
    made.machine = machine_fingerprint(machine, topology);
    made.date = "2026-11-21T00:00:00Z";
    made.places = topology.places();
    made.costs = described_costs(topology, machine.machine());
    made.costs.copy_rate(numbered(0), numbered(1)) = 123e9;
    made.costs.rank();
    return made;
  }
  std::string stored_file() {
    return folder.path() + "/" + calibration_file_name(machine_fingerprint(machine, topology));
  }
};

TEST_F(CostSourceTest, TakesADescriptionWhereNothingIsStored) {
  const SourcedCosts costs = source_costs(machine, topology, "auto");
  EXPECT_EQ(costs.origin, CostOrigin::described);
  EXPECT_EQ(costs.from, "h200x2");
  EXPECT_DOUBLE_EQ(costs.costs.copy_rate(numbered(0), numbered(1)), 397e9);
  EXPECT_DOUBLE_EQ(costs.costs.copy_rate(numbered(0), numbered(2)), 55e9);
  EXPECT_DOUBLE_EQ(costs.costs.access_rate(numbered(0), numbered(0)), 4.2e12);
  EXPECT_DOUBLE_EQ(costs.costs.access_rate(numbered(0), numbered(1)), 397e9);
  EXPECT_FALSE(costs.costs.reaches(numbered(2), numbered(0)));  // Hosts run no kernels.
}

TEST_F(CostSourceTest, DescribesASwitchByTheMachinesCalls) {
  const MachineCosts costs = described_costs(topology, machine.machine());
  // 256 MiB: unmap 36 us, map 3 us, grant 74 us; 32 MiB: 33.35 + 3 + 55.1 us; linear in between.
  const Time dark = costs.stall_time(numbered(0), numbered(1), 256 * MiB) -
                    std::chrono::nanoseconds(256 * MiB * 1'000 / 2'100'000);  // The settling time.
  EXPECT_NEAR(static_cast<double>(dark.count()), 113e3, 1e3);
  EXPECT_NEAR(static_cast<double>(costs.move_time(numbered(0), numbered(1), 256 * MiB).count()),
              113e3 + 5.2e3 + 256.0 * MiB / 397, 1e3);
}

TEST_F(CostSourceTest, EstimatesByTheLinksOfAMachineThatNobodyDescribes) {
  const SourcedCosts costs = source_costs(decorated, topology, "auto");
  EXPECT_EQ(costs.origin, CostOrigin::estimated);
  EXPECT_EQ(costs.from, "link kinds");
  EXPECT_DOUBLE_EQ(costs.costs.copy_rate(numbered(0), numbered(1)), 397e9);
  EXPECT_DOUBLE_EQ(costs.costs.access_rate(numbered(1), numbered(1)), 4.2e12);
  EXPECT_EQ(index(costs.costs.by_speed(numbered(1))[1]), 0u);  // The peer comes before the host.
  // docs/results/migrations.md: dark for 82 us at 256 MiB, plus 119 us of settling.
  EXPECT_NEAR(
      static_cast<double>(costs.costs.stall_time(numbered(0), numbered(1), 256 * MiB).count()),
      205e3, 15e3);
}

TEST_F(CostSourceTest, LinksAreTheTopologysAndWhatAFileSaysOfBothWays) {
  const std::vector<std::vector<LinkKind>> kinds = {{LinkKind::same, LinkKind::nvlink},
                                                    {LinkKind::nvlink, LinkKind::same}};
  // Simulated directions do not slow each other down, so there are no rates for both at once,
  // whatever the real machine does.
  EXPECT_EQ(source_costs(machine, topology, "off").peers, (PeerLinks{kinds, {}}));
  EXPECT_EQ(source_costs(decorated, topology, "off").peers, (PeerLinks{kinds, {}}));
  const std::string machines = VMART_TEST_MACHINES;
  EXPECT_EQ(source_costs(machine, topology, machines + "/h200x4.json").peers,
            (PeerLinks{kinds, {664e9, 664e9}}));
  Calibration made = calibration();
  write_calibration(stored_file(), made);  // Like an older calibration, without `peers`.
  EXPECT_EQ(source_costs(machine, topology, "").peers, (PeerLinks{kinds, {}}));
  made.peers = {{{LinkKind::same, LinkKind::pcie}, {LinkKind::pcie, LinkKind::same}}, {1e9, 2e9}};
  write_calibration(stored_file(), made);
  EXPECT_EQ(source_costs(machine, topology, "").peers, made.peers);
  SimDriver islands(load_machine("test-islands"));
  const auto apart = Topology::discover(islands, {}).link_kinds();
  EXPECT_EQ(apart.at(2),
            (std::vector{LinkKind::none, LinkKind::none, LinkKind::same, LinkKind::nvlink}));
}

TEST_F(CostSourceTest, EstimatesKnowPcieAndIslands) {
  SimDriver pcie(load_machine("pcie4x4")), islands(load_machine("test-islands"));
  const MachineCosts slow = estimated_costs(Topology::discover(pcie, {}));
  EXPECT_LT(slow.copy_rate(numbered(0), numbered(1)), slow.copy_rate(numbered(0), numbered(4)));
  EXPECT_EQ(index(slow.by_speed(numbered(2))[1]), 4u);  // The host comes before peers.
  const MachineCosts apart = estimated_costs(Topology::discover(islands, {}));
  EXPECT_TRUE(apart.reaches(numbered(0), numbered(1)));
  EXPECT_FALSE(apart.reaches(numbered(0), numbered(2)));
  EXPECT_GT(apart.copy_rate(numbered(0), numbered(2)), 0);
  EXPECT_EQ(apart.by_speed(numbered(0)).size(), 3u);
}

TEST_F(CostSourceTest, PrefersWhatIsStored) {
  write_calibration(stored_file(), calibration());
  const SourcedCosts costs = source_costs(machine, topology, "");
  EXPECT_EQ(costs.origin, CostOrigin::measured);
  EXPECT_EQ(costs.from, stored_file());
  EXPECT_DOUBLE_EQ(costs.costs.copy_rate(numbered(0), numbered(1)), 123e9);
  EXPECT_EQ(source_costs(machine, topology, "off").origin, CostOrigin::described);
}

TEST_F(CostSourceTest, TheVariableIsASettingOfARuntime) {
  EXPECT_EQ(resolve_settings({}).calibration, "auto");
  setenv("VMART_CALIBRATION", "off", 1);
  EXPECT_EQ(resolve_settings({}).calibration, "off");
  setenv("VMART_CALIBRATION", "", 1);
  EXPECT_EQ(resolve_settings({}).calibration, "auto");
  unsetenv("VMART_CALIBRATION");
}

TEST_F(CostSourceTest, TakesAFileThatIsNamed) {
  const std::string file = folder.path() + "/mine.json";
  write_calibration(file, calibration());
  EXPECT_DOUBLE_EQ(source_costs(machine, topology, file).costs.copy_rate(numbered(0), numbered(1)),
                   123e9);
  const std::string machines = VMART_TEST_MACHINES;
  const SourcedCosts other = source_costs(machine, topology, machines + "/gh200x2.json");
  EXPECT_EQ(other.origin, CostOrigin::described);
  EXPECT_DOUBLE_EQ(other.costs.copy_rate(numbered(0), numbered(1)), 132e9);
}

TEST_F(CostSourceTest, RefusesANamedFileThatDoesNotFit) {
  const auto refuses = [&](const std::string& choice, const std::string& text) {
    EXPECT_TRUE(says(
        expect_error(ErrorKind::invalid_argument, [&] { source_costs(machine, topology, choice); }),
        text))
        << choice;
  };
  refuses("on", "off, auto, or an existing file");
  refuses(folder.path(), "off, auto, or an existing file");
  folder.write("rubbish.json", "{]");
  refuses(folder.path() + "/rubbish.json", "neither a calibration");
  refuses(std::string(VMART_TEST_MACHINES) + "/h200x1.json", "has no gpu(1)");
  Calibration other = calibration();
  other.places[2] = host(3);
  write_calibration(folder.path() + "/other.json", other);
  refuses(folder.path() + "/other.json", "other places");
}

TEST_F(CostSourceTest, LeavesAStoredFileAsideThatCannotBeUsed) {
  Calibration other = calibration();
  other.machine = "another one";
  write_calibration(stored_file(), other);
  EXPECT_EQ(source_costs(machine, topology, "auto").origin, CostOrigin::described);
  other = calibration();
  other.places[2] = host(3);
  write_calibration(stored_file(), other);
  EXPECT_EQ(source_costs(machine, topology, "auto").origin, CostOrigin::described);
  folder.write(stored_file().substr(folder.path().size() + 1), "");
  EXPECT_EQ(source_costs(machine, topology, "auto").origin, CostOrigin::described);
}

TEST_F(CostSourceTest, FingerprintsTellMachinesApart) {
  SimDriver four(load_machine("h200x4"));
  const int one[] = {1};
  const std::string whole = machine_fingerprint(machine, topology);
  const std::string part = machine_fingerprint(machine, Topology::discover(machine, one));
  EXPECT_EQ(whole, machine_fingerprint(machine, Topology::discover(machine, {})));
  EXPECT_NE(whole, part);
  EXPECT_NE(whole, machine_fingerprint(four, Topology::discover(four, {})));
  EXPECT_NE(calibration_file_name(whole), calibration_file_name(part));
}

TEST(PlaceStates, HaveWhatChunksMayFill) {
  RuntimeOptions options;
  options.capacity_bytes[gpu(1)] = GiB;
  RuntimeRig rig("h200x2", options);
  Machinery& machinery = *parts_of(rig.runtime()).machinery;
  const auto states = [&] {
    return place_states(rig.machine(), machinery.topology, machinery.memory.chunks().ledger());
  };
  const std::vector<PlaceState> places = states();
  ASSERT_EQ(places.size(), 3u);
  const std::uint64_t hbm = 143'771 * MiB;
  EXPECT_LT(places[0].capacity_bytes, hbm - 520 * MiB);  // A context is open there.
  EXPECT_GT(places[0].capacity_bytes, hbm - 3 * GiB);
  EXPECT_LE(places[1].capacity_bytes, GiB);
  EXPECT_GT(places[1].capacity_bytes, GiB - 100 * MiB);
  EXPECT_EQ(places[2].place, host(0));
  EXPECT_EQ(places[2].capacity_bytes, 1'048'576 * MiB);
  // Chunks take room at a place but do not change its capacity.
  rig.alloc(512 * MiB, gpu(0), 2 * MiB);
  EXPECT_NEAR(static_cast<double>(states()[0].capacity_bytes),
              static_cast<double>(places[0].capacity_bytes), 8.0 * MiB);
}

TEST(PlaceStates, GuessWhatAContextWillTakeWhereNoneIsOpen) {
  SimDriver machine(load_machine("h200x2"));
  const Topology topology = Topology::discover(machine, {});
  Ledger ledger;
  for (const Place at : topology.places()) ledger.open(at, UINT64_MAX);
  EXPECT_EQ(place_states(machine, topology, ledger)[0].capacity_bytes, 143'771 * MiB - GiB);
}

TEST(PlaceStates, ReadTheSizeOfANode) {
  CacheFolder folder;
  folder.write("node1/meminfo", "Node 1 MemTotal:       528280276 kB\nNode 1 MemFree: 1 kB\n");
  folder.write("node2/meminfo", "Node 2 MemFree:       528280276 kB\n");
  folder.write("node3/meminfo", "");
  EXPECT_EQ(host_node_bytes(1, folder.path()), 528'280'276 * KiB);
  for (const int node : {0, 2, 3}) EXPECT_EQ(host_node_bytes(node, folder.path()), std::nullopt);
}

}  // namespace
}  // namespace vma
