// Goal: cells survive writing and reading their files, and the table shows them.
#include "lab/experiments/cell_file.hpp"
#include "lab/experiments/results_table.hpp"
#include "machine/machine_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

std::string cell_text(const std::string& metrics, const std::string& bound,
                      const std::string& regret) {
  return fmt::format(
      R"({{"cell":{{"id":"x","trace":"\",\"report\":"}},"metrics":{},"bound":{},"regret":{},)"
      R"("report":{{"inputs":{{"seed":1}},"windows":[]}}}})"
      "\n",
      metrics, bound, regret);
}

const std::string whole = cell_text(
    R"({"seconds":1.1000000000000001E0,"moves":3,"rest_s":null,"links":{"gpu(0) hbm":5E-1},"x":4.742589867636229E2})",
    R"({"lower_bound_s":2.5E-1})", "3.4E0");

TEST(CellFile, GivesScalarsInTheShortestFormThatIsTheSameNumber) {
  const auto cell = CellFile::parse(whole, "x.json");
  ASSERT_TRUE(cell.has_value());
  const auto metrics = cell->metrics();
  ASSERT_EQ(metrics.size(), 4u);
  EXPECT_EQ(metrics[0], std::pair(std::string("seconds"), std::string("1.1")));
  EXPECT_EQ(metrics[1], std::pair(std::string("moves"), std::string("3")));
  EXPECT_EQ(metrics[2], std::pair(std::string("rest_s"), std::string()));
  EXPECT_EQ(metrics[3], std::pair(std::string("x"), std::string("474.2589867636229")));
  EXPECT_EQ(cell->number("/bound/lower_bound_s"), "0.25");
  EXPECT_EQ(cell->number("/bound/none"), "");
  EXPECT_EQ(cell->inputs().at("seed").as_int64(), 1);
}

TEST(CellFile, WhatIsCutAnywhereIsNone) {
  for (std::size_t left = 0; left < whole.size(); ++left)
    EXPECT_FALSE(CellFile::parse(whole.substr(0, left), "x.json").has_value()) << left;
  EXPECT_FALSE(CellFile::parse("[]\n", "x.json").has_value());
  EXPECT_FALSE(CellFile::parse("{}\n", "x.json").has_value());
  EXPECT_FALSE(CellFile::parse(whole + "x\n", "x.json").has_value());
}

TEST(ResultsTable, HasARowForEachResultInTheOrderOfTheCells) {
  Experiment experiment;
  experiment.machines.push_back({"a, \"b\"", replay_machine(load_machine("test-2"))});
  experiment.traces.emplace_back().name = "t";
  experiment.traces.emplace_back().name = "u";
  experiment.traces.back().origin = ExperimentTrace::Origin::held_out;
  ResultsTable table(experiment, 3);
  EXPECT_EQ(table.csv(), "");
  const auto result = CellFile::parse(cell_text(R"({"moves":1})", "null", "null"), "x.json");
  ASSERT_TRUE(result.has_value());
  table.set(2, {"id2", 0, 1, "p:x=1,y=2", "hash", 7}, *result);
  table.set(0, {"id0", 0, 0, "p", "hash", 7}, *result);
  EXPECT_EQ(table.csv(),
            "id,machine,trace,kind,policy,router,seed,moves,lower_bound_s,regret\n"
            "id0,\"a, \"\"b\"\"\",t,real,p,hash,7,1,,\n"
            "id2,\"a, \"\"b\"\"\",u,held_out,\"p:x=1,y=2\",hash,7,1,,\n");
}

TEST(ResultsTable, SumsUpTheSeedsOfOneThing) {
  Experiment experiment;
  experiment.machines.push_back({"m", replay_machine(load_machine("test-2"))});
  experiment.traces.emplace_back().name = "t";
  ResultsTable table(experiment, 3);
  const auto set = [&](std::size_t at, std::uint64_t seed, const char* metrics,
                       const char* regret) {
    const auto result = CellFile::parse(cell_text(metrics, "null", regret), "x.json");
    ASSERT_TRUE(result.has_value());
    table.set(at, {"id", 0, 0, "p:x=1,y=2", "hash", seed}, *result);
  };
  set(2, 3, R"({"cost_s":2E0,"stall_s":0,"bytes_moved":7,"rest_s":null})", "null");
  set(0, 1, R"({"cost_s":2E0,"stall_s":0,"bytes_moved":7,"rest_s":5E-1})", "2.5E-1");
  const std::string summary = table.summary();
  EXPECT_EQ(summary.substr(summary.find('\n') + 1),
            "m,t,\"p:x=1,y=2\",hash,2,2,0,2,,,0,0.25,,1,0,0,2,7,0,2,0.5,,1\n");
}

TEST(ResultsTable, QuotesAsRfc4180Says) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(csv_field("a\nb\r"), "\"a\nb\r\"");
  EXPECT_EQ(csv_field(""), "");
}

}  // namespace
}  // namespace vma
