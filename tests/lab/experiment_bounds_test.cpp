// Lower bounds of an experiment: found once for all policies, the same after an interruption.
#include "lab/experiment_rig.hpp"
#include "lab/trace_rig.hpp"
#include "machine/json_text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

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
    const JsonText cell(bytes, name, "test");
    const double lost = cell.number("metrics.accesses_lost").value();
    EXPECT_EQ(cell.number("regret").has_value(), lost == 0);
    EXPECT_GE(cell.number("regret").value_or(0), -1e-9);
    // Of this machine, trace, router and seed, to the last digit.
    std::string id = name.substr(name.find('/') + 1);
    const std::size_t policy = id.find("~drift~") + 7;
    id.erase(policy, id.find("hash") - policy);
    const JsonText bound(one.at("bounds/" + id), id, "test");
    EXPECT_EQ(cell.written("bound.lower_bound_s"), bound.written("bound.lower_bound_s"));
    EXPECT_EQ(cell.written("bound.plan_s"), bound.written("bound.plan_s"));
    EXPECT_EQ(cell.written("bound.gap"), bound.written("bound.gap"));
  }
  EXPECT_EQ(cells, 8u);
  EXPECT_EQ(bounds, 4u);
  rig.run("three", 3);
  EXPECT_EQ(one, rig.results("three"));

  fs::remove(rig / "three/bounds/test-2~drift~hash~s1.json");
  fs::resize_file(rig / "three/bounds/test-2~drift~hash~s2.json", 20);
  fs::remove(rig / "three/cells/test-2~drift~stay_put~hash~s1.json");
  fs::remove(rig / "three/cells/test-2~drift~stay_put~hash~s2.json");
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

}  // namespace
}  // namespace vma
