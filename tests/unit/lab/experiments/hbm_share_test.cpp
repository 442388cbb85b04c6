// Goal: HBM can be given as a share of a trace's live bytes. The bytes are right, and results,
// bounds and the inputs that identify finished cells use them.
#include "lab/experiments/experiment_inputs.hpp"

#include "machine/machine_file.hpp"
#include "unit/lab/experiments/experiment_rig.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace vma {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

TEST(HbmShare, IsThatPartOfThePeakInWholeChunks) {
  const TraceRoom room{1000 * mib, 0, 8 * mib};
  EXPECT_EQ(hbm_of_share(0.5, room, 32 * mib, 4), 128 * mib) << "125 MiB, in chunks of 8";
  EXPECT_EQ(hbm_of_share(0.5, room, 1 * mib, 4), 125 * mib);
  EXPECT_EQ(hbm_of_share(1, room, 1 * mib, 2), 500 * mib);
  EXPECT_EQ(hbm_of_share(2, room, 1 * mib, 1), 2000 * mib);
}

TEST(HbmShare, LeavesEachGpuRoomForAFewChunks) {
  const TraceRoom room{1000 * mib, 32 * mib, 8 * mib};
  EXPECT_EQ(hbm_of_share(0.1, room, 16 * mib, 4), 4 * 32 * mib);
  EXPECT_EQ(hbm_of_share(hbm_share_min, room, 1, 72), 4 * 32 * mib);
}

TEST(HbmShare, WhatNoNumberHoldsIsCutOff) {
  const TraceRoom room{~std::uint64_t{0}, 0, std::uint64_t{1} << 50};
  EXPECT_EQ(hbm_of_share(hbm_share_max, room, 32 * mib, 1), std::uint64_t{1000000000000000000});
  EXPECT_EQ(hbm_of_share(0.5, {}, 32 * mib, 1), 4u) << "nothing lives";
}

TEST(HbmShare, NoGpuGetsMoreThanItHasAndHostsStayAsTheyAre) {
  const ReplayMachine whole = replay_machine(load_machine("test-2"));
  ReplayMachine machine = whole;
  EXPECT_EQ(share_hbm(machine, 1, {80 * mib, 0, mib}, mib), 40 * mib);
  for (std::size_t i = 0; i < machine.places.size(); ++i) {
    const bool on_gpu = machine.places[i].place.kind == Place::Kind::gpu;
    EXPECT_EQ(machine.places[i].capacity_bytes, on_gpu ? 40 * mib : whole.places[i].capacity_bytes);
  }
  machine = whole;
  const std::uint64_t own = whole.places[0].capacity_bytes;
  EXPECT_EQ(share_hbm(machine, 64, {own, 0, mib}, mib), own);
  EXPECT_EQ(machine.places[1].capacity_bytes, whole.places[1].capacity_bytes);
}

/// Half of the trace's 112 MiB of live bytes; the same given in GiB; and the unchanged machine.
const char* const twice = R"({
  "experiment": "twice",
  "machines": [
    {"name": "share", "machine": "test-2", "hbm_share": 0.5},
    {"name": "fixed", "machine": "test-2", "hbm_gib": 0.02734375},
    {"name": "whole", "machine": "test-2"}],
  "traces": [
    {"name": "drift", "generate": "zipf-drift", "parameters":
      {"gpus": 2, "object_bytes": 4194304, "length_s": 0.3, "objects": 28, "accesses_s": 4000}}
  ],
  "policies": ["stay_put", "cost_benefit"],
  "bounds": true
})";

TEST(HbmShare, AnExperimentsCellsAndBoundsAreThoseOfThatCapacity) {
  ExperimentRig rig(twice);
  ASSERT_TRUE(rig.run("one", 1).failed.empty());
  rig.run("three", 3);
  const auto results = rig.results("one");
  EXPECT_EQ(results, rig.results("three"));
  for (const char* const policy : {"stay_put", "cost_benefit"}) {
    const std::string id = fmt::format("cells/{{}}~drift~{}~prefix~s1.json", policy);
    const auto cell = [&](const char* machine) {
      const std::string name = fmt::format(fmt::runtime(id), machine);
      return boost::json::parse(results.at(name));
    };
    const boost::json::value share = cell("share"), fixed = cell("fixed"), whole = cell("whole");
    EXPECT_EQ(share.at_pointer("/cell/hbm_bytes"), 28 * mib);
    EXPECT_EQ(share.at_pointer("/report/inputs/hbm_bytes"), 28 * mib);
    EXPECT_FALSE(fixed.at("cell").as_object().contains("hbm_bytes"));
    for (const char* const same : {"/metrics/cost_s", "/metrics/host_share", "/bound/lower_bound_s",
                                   "/report/inputs/machine_sum"})
      EXPECT_EQ(share.at_pointer(same), fixed.at_pointer(same)) << same;
    EXPECT_GT(share.at_pointer("/metrics/host_share").as_double(), 0.1)
        << "it is too small for the trace";
    EXPECT_GT(share.at_pointer("/bound/lower_bound_s").as_double(),
              whole.at_pointer("/bound/lower_bound_s").as_double());
  }
}

TEST(HbmShare, AnotherShareIsAnotherExperiment) {
  ExperimentRig rig(twice);
  rig.run("results", 1);
  const auto results = rig.results("results");
  std::string other(twice);
  other.replace(other.find("0.5"), 3, "0.6");
  rig.write(other);
  EXPECT_NE(error_of([&] { rig.run("results", 1); }).find("is of an experiment other than"),
            std::string::npos);
  EXPECT_EQ(results, rig.results("results"));
}

/// A trace file: 16 objects of `bytes` each, read once.
std::string events_of(std::uint64_t bytes) {
  std::string text;
  for (int object = 1; object <= 16; ++object) {
    text += fmt::format(R"({{"event":"alloc","time_ns":0,"object":{},"bytes":{}}})"
                        "\n",
                        object, bytes);
  }
  for (int object = 1; object <= 16; ++object) {
    text += fmt::format(R"({{"event":"access","time_ns":1000,"object":{},"bytes":{}}})"
                        "\n",
                        object, bytes);
  }
  return text;
}

TEST(HbmShare, FollowsTheTraceAndWhatFitsNowhereIsLostAndCounted) {
  ExperimentRig rig(
      R"({"experiment": "files", "policies": ["static"], "bounds": true, "chunk_mib": 1,
    "machines": [{"name": "share", "machine": "test-2", "hbm_share": 0.5, "host_gib": 0.015625}],
    "traces": [{"name": "small", "file": "small.jsonl"}, {"name": "large", "file": "large.jsonl"}]})");
  write_text(rig / "small.jsonl", events_of(mib));
  write_text(rig / "large.jsonl", events_of(4 * mib));
  ASSERT_TRUE(rig.run("results", 2).failed.empty());
  const auto results = rig.results("results");
  const auto cell = [&](const std::string& trace) {
    const std::string name = fmt::format("cells/share~{}~static~prefix~s1.json", trace);
    return boost::json::parse(results.at(name));
  };
  EXPECT_EQ(cell("small").at_pointer("/cell/hbm_bytes"), 4 * mib);
  EXPECT_EQ(cell("small").at_pointer("/metrics/accesses_lost"), 0);
  EXPECT_EQ(cell("large").at_pointer("/cell/hbm_bytes"), 16 * mib);
  EXPECT_GT(cell("large").at_pointer("/metrics/accesses_lost").as_int64(), 0);
  EXPECT_TRUE(cell("large").at("regret").is_null());
}

}  // namespace
}  // namespace vma
