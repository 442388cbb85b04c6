// Goal: a worker answers each question by one line, and an error by its reason, after which it goes
// on. What experiments make of the answers is tested in `tests/python`.
#include "lab/experiments/lab_worker.hpp"

#include "base/whole_file.hpp"
#include "machine/machine_file.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace vma {
namespace {

class LabWorkerTest : public testing::Test {
 protected:
  LabWorkerTest() {
    write_text(folder_ / "own.jsonl",
               "{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":4096}\n"
               "{\"event\":\"access\",\"time_ns\":1000,\"object\":1,\"bytes\":4096}\n");
  }

  boost::json::value ask(const std::string& question) {
    const std::string line = worker_.answer(question);
    EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
    EXPECT_TRUE(line.ends_with('\n')) << line;
    return boost::json::parse(line);
  }
  std::string error(const std::string& question) {
    return std::string(ask(question).at("error").as_string());
  }
  std::string text(const std::string& question, std::string_view key) {
    return std::string(ask(question).at(key).as_string());
  }
  /// The members of a question about a cell or a bound.
  std::string common(const std::string& machine = "test-2") {
    const std::string trace = fmt::format(R"({{"do":"trace","file":"{}"}})", folder_ / "own.jsonl");
    const std::string sum =
        text(fmt::format(R"({{"do":"machine","machine":{{"file":"{}"}}}})", machine), "sum");
    return fmt::format(R"("machine":{{"file":"{}"}},"trace":{},"router":"hash","pacing":"timed",)"
                       R"("chunk_bytes":1048576,"admission":"none","admission_memory":"all",)"
                       R"("inputs":{{"id":"x","version":"{}","machine_sum":"{}"}})",
                       machine, boost::json::serialize(ask(trace)),
                       text(R"({"do":"version"})", "version"), sum);
  }

  TemporaryFolder folder_;
  LabWorker worker_;
};

TEST_F(LabWorkerTest, RepliesToACellWithItsFile) {
  const std::string question = fmt::format(
      R"({{"do":"cell",{},"policy":"stay_put","slo_first_ms":5,"cell":{{"id":"x"}},"bound":null}})",
      common());
  const boost::json::value cell = ask(question);
  EXPECT_EQ(cell.at_pointer("/cell/id"), "x");
  EXPECT_EQ(cell.at_pointer("/report/inputs/id"), "x");
  EXPECT_EQ(cell.at_pointer("/metrics/accesses"), 1);
  EXPECT_TRUE(cell.at("bound").is_null() && cell.at("regret").is_null());
  EXPECT_EQ(cell, ask(question)) << "it depends on the question only";
}

TEST_F(LabWorkerTest, RepliesToABoundWithItsFileOrTheReason) {
  const boost::json::value bound = ask(fmt::format(R"({{"do":"bound",{}}})", common()));
  EXPECT_GT(bound.at_pointer("/bound/lower_bound_s").to_number<double>(), 0);
  EXPECT_TRUE(bound.at("reason").is_null());
  std::string loads = common();
  loads.replace(loads.find("\"hash\""), 6, "\"least_loaded\"");
  const boost::json::value none = ask(fmt::format(R"({{"do":"bound",{}}})", loads));
  EXPECT_TRUE(none.at("bound").is_null());
  EXPECT_TRUE(none.at("reason").is_string());
}

TEST_F(LabWorkerTest, ACellThatFailsSaysWhyAndTheNextIsAnswered) {
  const std::string question =
      fmt::format(R"({{"do":"cell",{},"policy":"best","cell":{{}},"bound":null}})", common());
  EXPECT_NE(error(question).find("there is no policy 'best'"), std::string::npos);
  EXPECT_EQ(ask(R"({"do":"policy","policy":"stay_put"})"), boost::json::object());
}

/// Each worker reads files for itself, so one that started later may have others than those
/// recorded.
TEST_F(LabWorkerTest, AResultThatWouldRecordOtherInputsThanItsOwnIsRefused) {
  const std::string file = folder_ / "machine.json";
  std::filesystem::copy_file(find_machine_file("test-2"), file);
  const std::string before = common(file);
  EXPECT_TRUE(ask(fmt::format(R"({{"do":"bound",{}}})", before)).as_object().contains("bound"));
  std::string machine = read_file(file).value();
  const std::string key = "\"memory_mib\": ";
  machine.insert(machine.find(key) + key.size(), "1");
  write_text(file, machine);
  LabWorker later;
  for (const char* const what : {"bound", "cell"}) {
    const std::string line = later.answer(fmt::format(
        R"({{"do":"{}",{},"policy":"stay_put","cell":{{}},"bound":null}})", what, before));
    EXPECT_NE(line.find("inputs: machine_sum has changed"), std::string::npos) << line;
  }
  std::string other = before;
  other.replace(other.find("\"version\":\""), 11, "\"version\":\"9.");
  EXPECT_NE(error(fmt::format(R"({{"do":"bound",{}}})", other)).find("inputs: version has changed"),
            std::string::npos);
}

TEST_F(LabWorkerTest, AQuestionThatItDoesNotKnowIsAnError) {
  EXPECT_NE(error("no question").find("question: line 1"), std::string::npos);
  EXPECT_NE(error("[]").find("is not an object"), std::string::npos);
  EXPECT_NE(error(R"({"do":"dance"})").find("do: \"dance\" is not known"), std::string::npos);
  EXPECT_NE(error(R"({"do":"trace"})").find("file: is missing"), std::string::npos);
}

TEST_F(LabWorkerTest, AMachineWithAShareHasTheHbmThatItsTraceLeavesIt) {
  const auto machine = [&](const std::string& more) {
    return ask(fmt::format(
        R"({{"do":"machine","machine":{{"file":"test-2"{}}},"trace":{{"peak_bytes":83886080,)"
        R"("sized_chunk_max":0,"unsized_object_max":1048576}},"chunk_bytes":1048576}})",
        more));
  };
  EXPECT_EQ(machine(",\"hbm_share\":1").at("hbm_bytes"), 41943040);
  EXPECT_EQ(machine(",\"hbm_gib\":0.0390625").at("hbm_bytes"), 41943040);
  EXPECT_EQ(machine(",\"hbm_gib\":0.0390625").at("sum"), machine(",\"hbm_share\":1").at("sum"));
  EXPECT_NE(machine("").at("sum"), machine(",\"hbm_share\":1").at("sum"));
}

/// The quantiles of Student's distribution are those of the usual tables.
TEST_F(LabWorkerTest, KnowsTheQuantilesOfStudentsDistribution) {
  EXPECT_NEAR(ask(R"({"do":"t_point","freedom":1})").at("t_point").as_double(), 12.7062047, 1e-6);
  EXPECT_NEAR(ask(R"({"do":"t_point","freedom":4})").at("t_point").as_double(), 2.776445, 1e-6);
}

}  // namespace
}  // namespace vma
