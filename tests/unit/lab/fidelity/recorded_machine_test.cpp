// Goal: a replay uses the links that the machine has. Method: two GPUs whose host is nearer than
// the peer, as with Grace, where costs alone suggest other links.

#include "lab/fidelity/recorded_machine.hpp"
#include "machine/machine_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr PlaceId gpu_0{0}, gpu_1{1}, host_0{2};

const PeerLinks by_nvlink{{{LinkKind::same, LinkKind::nvlink}, {LinkKind::nvlink, LinkKind::same}},
                          {200, 200}};
const PeerLinks by_pcie{{{LinkKind::same, LinkKind::pcie}, {LinkKind::pcie, LinkKind::same}}, {}};

RecordingHeader header(const PeerLinks& peers) {
  RecordingHeader header;
  header.places = {{gpu(0), 1000, 0, 0}, {gpu(1), 1000, 0, 0}, {host(0), 1000, 0, 0}};
  header.costs = MachineCosts(2, 3);
  for (const PlaceId device : {gpu_0, gpu_1}) {
    for (const PlaceId at : {gpu_0, gpu_1})
      header.costs.access_rate(device, at) = device == at ? 4000 : 130;
    header.costs.access_rate(device, host_0) = 450;
  }
  header.peers = peers;
  return header;
}

Calibration calibration(const PeerLinks& peers) {
  Calibration made;
  made.places = {gpu(0), gpu(1), host(0)};
  made.costs = header({}).costs;
  made.peers = peers;
  return made;
}

/// The links that GPU 0 uses to read memory at GPU 1.
std::vector<std::string> way(const ReplayMachine& machine) {
  std::vector<std::string> names;
  for (const LinkId link : machine.links.read(gpu_0, gpu_1).links())
    names.push_back(machine.links.name(link));
  return names;
}

const std::vector<std::string> by_hosts = {"gpu(1) hbm", "gpu(1) to host", "gpu(0) from host"};
const std::vector<std::string> by_ports = {"gpu(1) hbm", "gpu(1) to peers", "gpu(0) from peers",
                                           "gpu(0) peers both ways", "gpu(1) peers both ways"};

TEST(RecordedMachine, HasTheLinksThatItsRecordingSays) {
  EXPECT_EQ(way(recorded_machine(header(by_nvlink), {})), by_ports);
  EXPECT_EQ(way(recorded_machine(header(by_pcie), {})), by_hosts);
}

TEST(RecordedMachine, OfBeforeHasThoseThatItsCostsSuggest) {
  EXPECT_EQ(way(recorded_machine(header({}), {})), by_hosts);
  RecordingHeader near = header({});
  near.costs.access_rate(gpu_0, gpu_1) = near.costs.access_rate(gpu_1, gpu_0) = 451;
  EXPECT_EQ(way(recorded_machine(near, {})), std::vector(by_ports.begin(), by_ports.begin() + 3));
}

TEST(RecordedMachine, ACalibrationSaysItBetterIfItSaysIt) {
  EXPECT_EQ(way(recorded_machine(header(by_pcie), calibration(by_nvlink))), by_ports);
  EXPECT_EQ(way(recorded_machine(header({}), calibration(by_nvlink))), by_ports);
  EXPECT_EQ(way(recorded_machine(header(by_nvlink), calibration({}))), by_ports);
}

TEST(CalibratedMachine, KeepsTheLinksOfItsFileWhereACalibrationOfBeforeSaysNothing) {
  const ReplayMachine described = replay_machine(load_machine("h200x2"));
  EXPECT_EQ(way(described), by_ports);
  Calibration made = calibration({});
  made.costs.access_rate(gpu_0, gpu_1) = made.costs.access_rate(gpu_1, gpu_0) = 400e9;
  EXPECT_EQ(way(calibrated_machine(described, made)), by_ports);
  EXPECT_EQ(way(calibrated_machine(described, calibration(by_pcie))), by_hosts);
}

}  // namespace
}  // namespace vma
