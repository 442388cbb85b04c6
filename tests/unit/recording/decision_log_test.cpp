// Goal: decisions are kept in memory, can be found, and are written as lines; unwritable lines are
// counted.

#include "base/executor.hpp"
#include "recording/decision_log.hpp"
#include "support/test_run.hpp"
#include "unit/recording/record_samples.hpp"

#include <vma/error.hpp>

#include <boost/json/parse.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <limits>

namespace vma {
namespace {

Decision about(std::uint64_t allocation, std::uint32_t slot) {
  Decision decision;
  decision.policy = "two_touch";
  decision.chunk = {allocation, 0x7f0000000000, slot, 2u << 20, "kv"};
  decision.to = gpu(1);
  decision.why = "gpu(1) uses it";
  return decision;
}

std::vector<std::uint64_t> numbers(const std::vector<Decision>& decisions) {
  std::vector<std::uint64_t> numbers;
  for (const Decision& decision : decisions) numbers.push_back(decision.sequence);
  return numbers;
}

std::vector<Decision> read_lines(const std::string& path) {
  std::vector<Decision> decisions;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) decisions.push_back(parse_decision(line));
  return decisions;
}

using Numbers = std::vector<std::uint64_t>;

class DecisionLogTest : public testing::Test {
 protected:
  DecisionLogOptions to(const std::string& file) {
    DecisionLogOptions options;
    options.file = file;
    return options;
  }
  void add(DecisionLog& log, int count) {
    for (int made = 0; made < count; ++made) {
      Decision decision = about(1, 0);
      log.add(decision);
    }
  }

  ThreadedExecutor threads_;
  TemporaryFolder folder_;
};

TEST_F(DecisionLogTest, ALineIsTheDecision) {
  RecordSamples samples(run_seed());
  for (int count = 0; count < 500; ++count) {
    const Decision decision = samples.decision();
    const std::string line = to_json_line(decision);
    ASSERT_EQ(line.find('\n'), std::string::npos);
    Decision read = parse_decision(line);
    ASSERT_DOUBLE_EQ(read.value, decision.value);
    read.value = decision.value;  // Boost.JSON's parser may be off in the last bits.
    ASSERT_EQ(read, decision) << "VMART_SEED=" << run_seed() << ' ' << line;
  }
}

TEST_F(DecisionLogTest, ALineHasTheKeysOfTheDocument) {
  Decision decision = about(7, 3);
  decision.sequence = 12;
  decision.time = Time(1500);
  decision.kind = DecisionKind::moved;
  decision.plan = 4;
  decision.from = host(0);
  decision.reason = "";
  decision.value = 0.5;
  decision.predicted = {Time(900), Time(90)};
  decision.happened = {Time(1000), Time(100)};
  decision.began = Time(500);
  decision.ended = Time(1500);
  const char* const expected = R"json({
      "sequence": 12, "time_ns": 1500, "kind": "moved", "plan": 4, "policy": "two_touch",
      "chunk": {"allocation": 7, "begin": "0x7f0000000000", "slot": 3, "bytes": 2097152,
                "tag": "kv"},
      "from": "host(0)", "to": "gpu(1)", "why": "gpu(1) uses it", "value": 0.5,
      "predicted": {"move_ns": 900, "stall_ns": 90},
      "happened": {"move_ns": 1000, "stall_ns": 100}, "began_ns": 500, "ended_ns": 1500})json";
  EXPECT_EQ(boost::json::parse(to_json_line(decision)), boost::json::parse(expected));
}

TEST_F(DecisionLogTest, TextsThatAreNoTextStillMakeALine) {
  Decision decision = about(1, 0);
  decision.policy = "a\xFF\xC3\xA9\xE0\x80\x80\xED\xA0\x80z\xC3";
  decision.reason = std::string("nul\0quote\"\n", 11);
  decision.value = std::numeric_limits<double>::quiet_NaN();
  const Decision read = parse_decision(to_json_line(decision));
  EXPECT_EQ(read.policy,
            "a?\xC3\xA9?"
            "?"
            "?"
            "?"
            "?"
            "?z?");
  EXPECT_EQ(read.reason, decision.reason);
  EXPECT_NE(read.value, read.value);
}

TEST_F(DecisionLogTest, RefusesLinesThatAreNoDecision) {
  for (const char* line :
       {"", "{", "[]", "{}", R"({"sequence":1,"time_ns":0,"kind":"lost","value":0})",
        R"({"sequence":-1,"time_ns":0,"kind":"moved","value":0})",
        R"({"sequence":1,"time_ns":0,"kind":"moved","value":0,"more":1})"}) {
    EXPECT_THROW(parse_decision(line), Error) << line;
  }
}

TEST_F(DecisionLogTest, KeepsTheLastOnesAndFindsThem) {
  DecisionLogOptions options;
  options.decisions_max = 4;
  DecisionLog log(threads_, options);
  EXPECT_TRUE(log.since(0, 10).empty());
  for (std::uint32_t slot = 0; slot < 6; ++slot) {
    Decision decision = about(slot % 2, slot);
    EXPECT_EQ(log.add(decision), slot + 1);
    EXPECT_EQ(decision.sequence, slot + 1);
  }
  EXPECT_EQ(numbers(log.since(0, 10)), (Numbers{3, 4, 5, 6}));
  EXPECT_EQ(numbers(log.since(5, 10)), (Numbers{5, 6}));
  EXPECT_EQ(numbers(log.since(4, 2)), (Numbers{4, 5}));
  EXPECT_TRUE(log.since(7, 10).empty());
  EXPECT_TRUE(log.since(UINT64_MAX, 10).empty());
  EXPECT_EQ(numbers(log.about(1, std::nullopt, 10)), (Numbers{4, 6}));
  EXPECT_EQ(numbers(log.about(1, std::nullopt, 1)), (Numbers{6}));
  EXPECT_EQ(numbers(log.about(0, 2, 10)), (Numbers{3}));
  EXPECT_TRUE(log.about(0, 0, 10).empty()) << "it is no longer kept";
}

TEST_F(DecisionLogTest, KeepsOneEntryOfARefusalThatIsRepeated) {
  DecisionLogOptions options;
  options.decisions_max = 8;
  DecisionLog log(threads_, options);
  const auto refuse = [&](std::uint32_t slot, const std::string& reason, int second) {
    Decision decision = about(1, slot);
    decision.kind = DecisionKind::refused;
    decision.reason = reason;
    decision.time = std::chrono::seconds(second);
    log.add(decision);
  };
  Decision moved = about(1, 0);
  moved.kind = DecisionKind::moved;
  log.add(moved);
  for (int second = 0; second < 5'000; ++second) {
    for (const std::uint32_t slot : {0u, 1u}) {
      refuse(slot, second % 2 == 0 ? "cooldown: it moved" : "no_room: 1 B", second);
    }
  }
  EXPECT_EQ(numbers(log.since(0, 100)), (Numbers{1, 2, 3, 4, 5})) << "the move is still there";
  const Decision first = log.about(1, 0, 10).at(1);
  EXPECT_EQ(first.times, 2'500u);
  EXPECT_EQ(first.time, std::chrono::seconds(0));
  EXPECT_EQ(first.last_time, std::chrono::seconds(4'998));
  log.add(moved);  // What was refused before is refused anew after it.
  refuse(0, "cooldown: it moved", 5'000);
  EXPECT_EQ(log.about(1, 0, 1).at(0).times, 1u);
  EXPECT_EQ(log.stats().decisions, 10'003u);
}

TEST_F(DecisionLogTest, CutsTextsAtACharacter) {
  DecisionLog log(threads_, {});
  Decision decision = about(1, 0);
  decision.reason = std::string(decision_text_bytes_max - 1, 'x') + "\xC3\xA9";
  log.add(decision);
  EXPECT_EQ(decision.reason, std::string(decision_text_bytes_max - 1, 'x'));
}

TEST_F(DecisionLogTest, WritesEveryLineAndRotates) {
  const std::string file = folder_ / "decisions";
  DecisionLogOptions options = to(file);
  const std::size_t line = to_json_line(about(1, 0)).size();
  options.file_bytes_max = 12 * line;
  {
    DecisionLog log(threads_, options);
    for (int block = 0; block < 3; ++block) {
      add(log, 5);
      log.write_all();
    }
    add(log, 1);
    EXPECT_EQ(log.stats().lines_lost, 0u);
  }
  EXPECT_EQ(numbers(read_lines(file + ".1")), (Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(numbers(read_lines(file)), (Numbers{11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(read_lines(file)[0].chunk, about(1, 0).chunk);
}

TEST_F(DecisionLogTest, AFullDiskIsCountedAndLoggedOnce) {
  testing::internal::CaptureStderr();
  DecisionLog log(threads_, to("/dev/full"));
  for (int block = 0; block < 3; ++block) {
    add(log, 2);
    log.write_all();
  }
  EXPECT_EQ(log.stats().lines_lost, 6u);
  EXPECT_EQ(log.stats().write_failures, 3u);
  EXPECT_EQ(log.since(0, 10).size(), 6u) << "memory has them all the same";
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("/dev/full"), std::string::npos) << text;
  EXPECT_EQ(text.find("/dev/full"), text.rfind("/dev/full")) << text;
}

TEST_F(DecisionLogTest, AVanishedFolderIsCountedAndOneThatComesBackIsUsed) {
  const std::filesystem::path inner = folder_.path() / "inner";
  std::filesystem::create_directory(inner);
  DecisionLog log(threads_, to((inner / "decisions").string()));
  add(log, 1);
  log.write_all();
  std::filesystem::remove_all(inner);
  add(log, 2);
  log.write_all();
  EXPECT_EQ(log.stats().lines_lost, 2u);
  std::filesystem::create_directory(inner);
  add(log, 1);
  log.write_all();
  EXPECT_EQ(numbers(read_lines((inner / "decisions").string())), (Numbers{4}));
}

TEST_F(DecisionLogTest, AClosedPipeKillsNobody) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  DecisionLog log(threads_, to(pipe));
  add(log, 1);
  log.write_all();
  EXPECT_EQ(log.stats().lines_lost, 1u) << "nobody reads";
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  add(log, 1);
  log.write_all();
  EXPECT_EQ(log.stats().lines_lost, 1u);
  char first = 0;
  EXPECT_EQ(::read(reader, &first, 1), 1);
  EXPECT_EQ(first, '{');
  ::close(reader);
  add(log, 1);
  log.write_all();
  EXPECT_EQ(log.stats().lines_lost, 2u) << "the reader is gone";
}

TEST_F(DecisionLogTest, WaitsForAPipeThatNobodyEmptiesAMomentOnly) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  {
    DecisionLog log(threads_, to(pipe));
    add(log, 500);  // More than the 64 KiB that a pipe holds.
    log.write_all();
    EXPECT_GT(log.stats().lines_lost, 0u);
  }
  ::close(reader);
}

}  // namespace
}  // namespace vma
