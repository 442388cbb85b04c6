// Goal: the machine file that a probe writes describes that machine. Method: simulated machines,
// whose own files say what the probe must find; times are virtual.
#include "measuring/machine_probe.hpp"

#include "base/units.hpp"
#include "machine/cost_model.hpp"
#include "machine/machine_file.hpp"
#include "measuring/chunk_probe.hpp"
#include "measuring/stream_probe.hpp"
#include "sim/sim_driver.hpp"
#include "support/drivers/fault_driver.hpp"
#include "support/sanitizer.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace vma {
namespace {

std::string probe(std::unique_ptr<Driver> driver, const std::string& name = "") {
  MachineProbe::Options options;
  options.name = name;
  return MachineProbe(std::move(driver), std::move(options)).run();
}

std::string probe(const std::string& machine) {
  return probe(std::make_unique<SimDriver>(load_machine(machine)));
}

void expect_near(double found, double wanted, const std::string& what) {
  EXPECT_NEAR(found / wanted, 1, 0.05) << what << ": " << found << ", not " << wanted;
}

SourceKind kind_of(const MachineDocument& document, const std::string& path) {
  const auto found = std::ranges::find(document.numbers(), path, &SourcedNumber::path);
  EXPECT_NE(found, document.numbers().end()) << path;
  return found == document.numbers().end() ? SourceKind::made_up : found->source.kind;
}

struct MachineProbeTest : testing::TestWithParam<const char*> {};

TEST_P(MachineProbeTest, FindsTheMachineAgain) {
  const MachineDescription wanted = load_machine(GetParam());
  const std::string text = probe(GetParam());
  const MachineDocument document = MachineDocument::parse(text, "probed");
  for (const std::string& problem : document.problems()) ADD_FAILURE() << problem;
  ASSERT_TRUE(document.problems().empty()) << text;
  const MachineDescription found = document.machine();
  EXPECT_EQ(found.granularity_bytes, wanted.granularity_bytes);
  ASSERT_EQ(found.host_nodes.size(), wanted.host_nodes.size());
  for (std::size_t node = 0; node < wanted.host_nodes.size(); ++node) {
    EXPECT_EQ(found.host_nodes[node].memory_bytes, wanted.host_nodes[node].memory_bytes);
  }
  ASSERT_EQ(found.gpus.size(), wanted.gpus.size());
  for (std::size_t i = 0; i < wanted.gpus.size(); ++i) {
    SCOPED_TRACE(i);
    const GpuDescription &gpu = found.gpus[i], &same = wanted.gpus[i];
    EXPECT_EQ(gpu.name, same.name);
    EXPECT_EQ(gpu.memory_bytes, same.memory_bytes);
    EXPECT_EQ(gpu.multiprocessors, same.multiprocessors);
    EXPECT_EQ(gpu.compute_capability, same.compute_capability);
    EXPECT_EQ(gpu.copy_engines, same.copy_engines);
    EXPECT_EQ(gpu.hardware_queues, same.hardware_queues);
    EXPECT_EQ(gpu.host_node, same.host_node);
    expect_near(gpu.local_gb_s, same.local_gb_s, "local");
    for (std::size_t to = 0; to < wanted.gpus.size(); ++to) {
      const PeerLink &link = found.peer_links[i][to], &its = wanted.peer_links[i][to];
      EXPECT_EQ(link.kind, its.kind);
      EXPECT_EQ(link.native_atomics, its.native_atomics);
      if (its.kind != LinkKind::none && i != to) expect_near(link.gb_s, its.gb_s, "peer");
      if (link.both_ways_gb_s == 0) continue;
      EXPECT_EQ(its.kind, LinkKind::nvlink);  // Simulated directions do not slow each other down.
      expect_near(link.both_ways_gb_s, 2 * its.gb_s, "both ways");
    }
    for (std::size_t node = 0; node < wanted.host_nodes.size(); ++node) {
      const HostLink &link = found.host_links[i][node], &its = wanted.host_links[i][node];
      expect_near(link.to_gpu_gb_s, its.to_gpu_gb_s, "to the GPU");
      expect_near(link.from_gpu_gb_s, its.from_gpu_gb_s, "from the GPU");
    }
  }
}

std::vector<const char*> machines() {
  if (under_sanitizer) return {"h200x2", "gh200x2", "test-islands"};
  return {"h200x1", "h200x2", "gh200x2", "pcie4x4", "test-islands"};
}

INSTANTIATE_TEST_SUITE_P(Machines, MachineProbeTest, testing::ValuesIn(machines()),
                         [](const auto& machine) {
                           std::string name = machine.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(MachineProbe, TimesTheCallsOfTheMachineFile) {
  const MachineDescription wanted = load_machine("h200x2");
  const MachineDescription found = parse_machine(probe("h200x2"), "probed");
  EXPECT_EQ(found.name, "nvidia-h200x2");
  const CostParameters &costs = found.costs, &its = wanted.costs;
  for (const std::uint64_t mib : {2, 64, 256, 510, 512, 1024}) {
    SCOPED_TRACE(mib);
    const auto us = [&](const CostTable& table, int gpus) {
      return static_cast<double>(look_up(table, mib * MiB, gpus).count()) / 1e3;
    };
    expect_near(us(costs.create, 1), us(its.create, 1), "create");
    expect_near(us(costs.release, 1), us(its.release, 1), "release");
    for (const int gpus : {1, 2}) {
      expect_near(us(costs.unmap, gpus), us(its.unmap, gpus), "unmap");
    }
    expect_near(us(costs.grant_cold, 2), us(its.grant_cold, 2), "grant_cold");
    expect_near(us(costs.grant_first, 2), us(its.grant_first, 2), "grant_first");
    expect_near(us(costs.grant_later, 2), us(its.grant_later, 2), "grant_later");
    expect_near(us(costs.grant_shadow, 2), us(its.grant_shadow, 2), "grant_shadow");
    if (mib < 512) continue;
    expect_near(us(costs.grant_first_own_class, 2), us(its.grant_first_own_class, 2), "own first");
    expect_near(us(costs.grant_later_own_class, 2), us(its.grant_later_own_class, 2), "own later");
  }
  EXPECT_EQ(costs.size_class_bytes, its.size_class_bytes);
  expect_near(costs.map_us, its.map_us, "map");
  expect_near(costs.batch_us, its.batch_us, "batch");
  expect_near(costs.wait_us, its.wait_us, "wait");
  expect_near(costs.launch_us, its.launch_us, "launch");
  expect_near(costs.open_context_us, its.open_context_us, "open_context");
  expect_near(costs.enqueue_us, its.enqueue_us, "enqueue");
  expect_near(costs.copy_latency_us, its.copy_latency_us, "copy_latency");
  expect_near(costs.kernel_us, its.kernel_us, "kernel");
  expect_near(costs.load_kernel_us, its.load_kernel_us, "load_kernel");
  expect_near(costs.plain_free_us, its.plain_free_us, "plain_free");
  expect_near(costs.host_create_gb_s, its.host_create_gb_s, "host_create");
  expect_near(costs.host_grant_us_per_mib, its.host_grant_us_per_mib, "host_grant");
  expect_near(costs.host_unmap_us_per_mib, its.host_unmap_us_per_mib, "host_unmap");
}

TEST(MachineProbe, SaysWhatItMeasuredAndWhatNot) {
  const MachineDocument document = MachineDocument::parse(
      probe(std::make_unique<SimDriver>(load_machine("test-2")), "mine"), "probed");
  ASSERT_TRUE(document.problems().empty()) << document.problems().front();
  EXPECT_EQ(document.machine().name, "mine");
  EXPECT_EQ(kind_of(document, "gpus[0].memory_mib"), SourceKind::driver);
  EXPECT_EQ(kind_of(document, "gpus[0].local_gb_s"), SourceKind::measured);
  EXPECT_EQ(kind_of(document, "peer_link.gb_s"), SourceKind::measured);
  EXPECT_EQ(kind_of(document, "peer_link.both_ways_gb_s"), SourceKind::measured);
  EXPECT_EQ(kind_of(document, "costs.map_us"), SourceKind::measured);
  EXPECT_EQ(kind_of(document, "costs.context_mib"), SourceKind::estimate);
  EXPECT_EQ(kind_of(document, "costs.hold_us"), SourceKind::estimate);
}

TEST(MachineProbe, WhatFailsIsAnEstimate) {
  auto machine = std::make_unique<SimDriver>(load_machine("h200x2"));
  auto faults = std::make_unique<FaultDriver>(*machine);
  std::set<int> all;
  for (int call = 0; call < 1000; ++call) all.insert(call);
  faults->count_only({Call::allocate_plain});
  faults->fail_calls(all);
  std::vector<std::string> said;
  MachineProbe::Options options;
  options.say = [&](const std::string& what) { said.push_back(what); };
  const std::string text = MachineProbe(std::move(faults), std::move(options)).run();
  const MachineDocument document = MachineDocument::parse(text, "probed");
  ASSERT_TRUE(document.problems().empty()) << document.problems().front();
  EXPECT_EQ(kind_of(document, "costs.plain_free_us"), SourceKind::estimate);
  EXPECT_EQ(kind_of(document, "costs.launch_us"), SourceKind::estimate);
  EXPECT_EQ(kind_of(document, "costs.record_us"), SourceKind::measured);
  EXPECT_EQ(document.machine().costs.plain_free_us, load_machine("h200x2").costs.plain_free_us);
  const auto named = [](const std::string& it) {
    return it.starts_with("not measured: plain memory: ");
  };
  EXPECT_TRUE(std::ranges::any_of(said, named));
  EXPECT_TRUE(machine->leaks().empty()) << machine->leaks().front();
}

TEST(MachineProbe, AMachineWithoutMemoryIsNone) {
  SimDriver machine(load_machine("test-2"));
  auto faults = std::make_unique<FaultDriver>(machine);
  std::set<int> all;
  for (int call = 0; call < 1000; ++call) all.insert(call);
  faults->count_only({Call::create});
  faults->fail_calls(all);
  EXPECT_THROW(probe(std::move(faults)), Error);
  EXPECT_TRUE(machine.leaks().empty()) << machine.leaks().front();
}

TEST(MachineProbe, LeavesNothingOnTheMachine) {
  auto driver = std::make_unique<SimDriver>(load_machine("test-2"));
  MeasuredCalls calls;
  {
    const ContextHandle context = driver->retain_primary(DeviceId{0});
    driver->retain_primary(DeviceId{1});
    ChunkProbe(*driver, 64 * MiB, [](const std::string&) {}).measure(calls);
    StreamProbe(*driver, context).measure(calls);
    driver->release_primary(DeviceId{1});
    driver->release_primary(DeviceId{0});
  }
  EXPECT_TRUE(calls.failures.empty()) << calls.failures.front();
  EXPECT_TRUE(driver->leaks().empty()) << driver->leaks().front();
}

}  // namespace
}  // namespace vma
