// Goal: lower bounds of an experiment are computed once for all policies, and are the same after an
// interruption.
#include "support/sanitizer.hpp"
#include "unit/lab/experiments/experiment_rig.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <malloc.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace vma {
namespace {

namespace fs = std::filesystem;

std::string with_bounds() {
  std::string text(quick_experiment);
  return text.insert(text.rfind('}'), ",\n  \"bounds\": true");
}

TEST(ExperimentBounds, EachIsFoundOnceAndNoCellIsUnderIt) {
  ExperimentRig rig(with_bounds());
  rig.run("one", 1);
  const auto one = rig.results("one");
  std::size_t bounds = 0, cells = 0;
  for (const auto& [name, bytes] : one) {
    bounds += name.starts_with("bounds/") ? 1 : 0;
    if (!name.starts_with("cells/")) continue;
    ++cells;
    SCOPED_TRACE(name);
    const boost::json::value cell = boost::json::parse(bytes);
    const auto lost = cell.at_pointer("/metrics/accesses_lost").as_int64();
    EXPECT_EQ(cell.at("regret").is_number(), lost == 0);
    if (lost == 0) {
      EXPECT_GE(cell.at("regret").to_number<double>(), -1e-9);
    }
    // The bound of this machine, trace, router and seed, to the last digit.
    std::string id = name.substr(name.find('/') + 1);
    const std::size_t policy = id.find("~drift~") + 7;
    id.erase(policy, id.find("prefix") - policy);
    const boost::json::value bound = boost::json::parse(one.at("bounds/" + id));
    EXPECT_EQ(cell.at("bound").at("lower_bound_s"), bound.at("bound").at("lower_bound_s"));
    EXPECT_EQ(cell.at("bound").at("plan_s"), bound.at("bound").at("plan_s"));
    EXPECT_EQ(cell.at("bound").at("gap"), bound.at("bound").at("gap"));
  }
  EXPECT_EQ(cells, 8u);
  EXPECT_EQ(bounds, 4u);
  rig.run("three", 3);
  EXPECT_EQ(one, rig.results("three"));

  fs::remove(rig / "three/bounds/test-2~drift~prefix~s1.json");
  fs::resize_file(rig / "three/bounds/test-2~drift~prefix~s2.json", 20);
  fs::remove(rig / "three/cells/test-2~drift~stay_put~prefix~s1.json");
  fs::remove(rig / "three/cells/test-2~drift~stay_put~prefix~s2.json");
  rig.run("three", 2);
  EXPECT_EQ(one, rig.results("three"));
}

TEST(ExperimentBounds, WhereTheReplayChoosesDevicesThereIsAReasonInstead) {
  ExperimentRig rig(R"({"experiment": "x", "machines": ["test-2"], "policies": ["stay_put"],
    "traces": [{"name": "own", "file": "own.jsonl"}], "bounds": true,
    "routers": ["hash", "least_loaded"]})");
  write_text(rig / "own.jsonl",
             "{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":4096}\n"
             "{\"event\":\"access\",\"time_ns\":1000,\"object\":1,\"bytes\":4096}\n");
  const RunOutcome outcome = rig.run("results", 2);
  EXPECT_EQ(outcome.finished, 2u);
  const auto results = rig.results("results");
  EXPECT_NE(results.at("cells/test-2~own~stay_put~hash~s1.json").find("\"lower_bound_s\""),
            std::string::npos);
  EXPECT_NE(results.at("cells/test-2~own~stay_put~least_loaded~s1.json")
                .find("\"bound\":null,\"regret\":null"),
            std::string::npos);
  const std::string& none = results.at("bounds/test-2~own~least_loaded~s1.json");
  EXPECT_NE(none.find("\"bound\":null,\"reason\":\""), std::string::npos) << none;
}

constexpr const char* own_cell = "test-2~own~stay_put~prefix~s1";
constexpr const char* own_bound = "test-2~own~prefix~s1";

/// A quarter of a GiB in chunks of 1 KiB, used once.
struct ManyChunks : ExperimentRig {
  ManyChunks()
      : ExperimentRig(R"({"experiment": "x", "machines": ["test-2"], "policies": ["stay_put"],
    "traces": [{"name": "own", "file": "own.jsonl"}], "bounds": true, "chunk_mib": 0.0009765625})") {
    write_text(*this / "own.jsonl",
               "{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":268435456}\n"
               "{\"event\":\"access\",\"time_ns\":1000,\"object\":1,\"bytes\":4096}\n");
  }
};

/// The bound and its cell were skipped, so that the next run computes both.
void expect_next_time(const ExperimentRig& rig, const RunOutcome& outcome) {
  EXPECT_TRUE(outcome.failed_bounds.contains(own_bound));
  EXPECT_EQ(outcome.without_bound, 1u);
  EXPECT_EQ(outcome.finished, 0u);
  EXPECT_TRUE(outcome.failed.empty());
  EXPECT_FALSE(outcome.stopped);
  EXPECT_FALSE(rig.results("results").contains(fmt::format("bounds/{}.json", own_bound)));
}

void expect_found(ExperimentRig& rig) {
  const RunOutcome outcome = rig.run("results", 2);
  EXPECT_TRUE(outcome.all_went_well());
  EXPECT_EQ(outcome.finished, 1u);
  const auto results = rig.results("results");
  EXPECT_NE(results.at(fmt::format("cells/{}.json", own_cell)).find("\"lower_bound_s\""),
            std::string::npos);
}

TEST(ExperimentBounds, OneThatFailsForAPassingReasonIsTriedAgain) {
  ManyChunks rig;
  const std::string trace = rig / "own.jsonl", away = rig / "away.jsonl";
  rig.watcher.at_stage = [&](const std::string& what) {
    if (what.find("bounds") != std::string::npos) fs::rename(trace, away);
  };
  const RunOutcome outcome = rig.run("results", 2);
  expect_next_time(rig, outcome);
  EXPECT_NE(outcome.failed_bounds.at(own_bound).find("own.jsonl: "), std::string::npos);
  rig.watcher.at_stage = nullptr;
  fs::rename(away, trace);
  expect_found(rig);
}

/// `VmData` of /proc/self/status, which `RLIMIT_DATA` limits.
std::uint64_t data_bytes() {
  const std::string status = text_of("/proc/self/status");
  const std::string key = "VmData:";
  return std::stoull(status.substr(status.find(key) + key.size())) * 1024;
}

/// Runs in a separate process, with no more memory from when bounds are computed.
[[noreturn]] void run_without_memory(ExperimentRig& rig) {
  rig.watcher.at_stage = [](const std::string& what) {
    if (what.find("bounds") == std::string::npos) return;
    malloc_trim(0);  // Otherwise memory freed earlier would be enough.
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = data_bytes() + (std::uint64_t{8} << 20);
    setrlimit(RLIMIT_DATA, &limit);
  };
  const RunOutcome outcome = rig.run("results", 1);
  expect_next_time(rig, outcome);
  std::fputs(outcome.failed_bounds.at(own_bound).c_str(), stderr);
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(ExperimentBounds, OneWithoutMemoryFailsAloneAndIsTriedAgain) {
  if (under_sanitizer) GTEST_SKIP() << "it ends a program that has no memory";
  ManyChunks rig;
  EXPECT_EXIT(run_without_memory(rig), ::testing::ExitedWithCode(0), "bad_alloc");
  expect_found(rig);
}

}  // namespace
}  // namespace vma
