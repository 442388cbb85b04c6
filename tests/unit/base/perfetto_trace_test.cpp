// Goal: a trace is a complete JSON array after every flush and shows its entries on the right
// tracks; a write error loses entries but does no other harm. Method: writes trace files and reads
// them with an independent JSON parser.
#include "base/perfetto_trace.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace vma {
namespace {

namespace json = boost::json;
using std::chrono::microseconds;

class PerfettoTraceTest : public testing::Test {
 protected:
  PerfettoTraceTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~PerfettoTraceTest() override { std::filesystem::remove_all(folder_); }

  std::string file() const { return folder_ + "/trace.json"; }
  std::string text() const {
    std::stringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  json::array entries() const { return json::parse(text()).as_array(); }
  json::array entries(std::string_view phase) const {
    json::array found;
    for (const json::value& entry : entries()) {
      if (entry.at("ph").as_string() == phase) found.push_back(entry);
    }
    return found;
  }
  static TracedMove move(int begin_us, int end_us, std::uint64_t decision = 0) {
    return {microseconds(begin_us),
            microseconds(end_us),
            gpu(0),
            host(0),
            0x1000,
            4096,
            decision,
            true};
  }

 private:
  std::string folder_ = "/tmp/vmart-trace-XXXXXX";
};

TEST_F(PerfettoTraceTest, IsWholeAfterEachFlush) {
  PerfettoTrace trace(file());
  for (int round = 0; round < 5; ++round) {
    trace.add(move(round * 10, round * 10 + 5));
    trace.flush();
    EXPECT_EQ(entries("X").size(), static_cast<std::size_t>(round) + 1);
    trace.flush();  // Nothing new to write.
    EXPECT_EQ(entries("X").size(), static_cast<std::size_t>(round) + 1);
  }
  EXPECT_EQ(trace.lost(), 0U);
}

TEST_F(PerfettoTraceTest, IsWholeWhenTheProcessDiesAfterAFlush) {
  const pid_t child = fork();
  if (child == 0) {
    PerfettoTrace trace(file());
    trace.add(move(1, 2));
    trace.flush();
    trace.add(move(3, 4));
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(entries("X").size(), 1U);
}

TEST_F(PerfettoTraceTest, GivesEachGpuAndRouteATrackWithItsName) {
  PerfettoTrace trace(file());
  trace.add(move(0, 10));
  TracedMove back = move(20, 30);
  std::swap(back.from, back.to);
  trace.add(back);
  trace.add(TracedStall{microseconds(5), microseconds(6), gpu(0), 0x1000, {}});
  trace.add(TracedStall{microseconds(5), microseconds(6), gpu(1), 0x1000, {}});
  trace.flush();
  std::set<std::string> names;
  for (const json::value& entry : entries("M")) {
    names.insert(std::string(entry.at("args").at("name").as_string()));
  }
  for (const char* name : {"gpu(0)", "gpu(1)", "gpu(0) to host(0)", "host(0) to gpu(0)"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  std::set<std::int64_t> tracks;
  for (const json::value& entry : entries("X")) tracks.insert(entry.at("tid").as_int64());
  EXPECT_EQ(tracks.size(), 4U);
}

TEST_F(PerfettoTraceTest, LaysMovesOfOneRouteThatOverlapOnTracksOfTheirOwn) {
  PerfettoTrace trace(file());
  trace.add(move(0, 10));
  trace.add(move(5, 15));
  trace.add(move(12, 20));  // Fits behind the first, on the same track.
  trace.flush();
  const json::array moves = entries("X");
  EXPECT_NE(moves.at(0).at("tid"), moves.at(1).at("tid"));
  EXPECT_EQ(moves.at(0).at("tid"), moves.at(2).at("tid"));
}

TEST_F(PerfettoTraceTest, LeadsFromADecisionToItsMove) {
  PerfettoTrace trace(file());
  trace.add(TracedDecision{microseconds(3), 42, gpu(0), host(0), 0x1000, "stay",
                           "a \"reason\"\n\xff", "moved"});
  trace.add(move(8, 20, 42));
  trace.flush();
  const json::value start = entries("s").at(0), end = entries("f").at(0);
  EXPECT_EQ(start.at("id").as_int64(), 42);
  EXPECT_EQ(end.at("id").as_int64(), 42);
  EXPECT_EQ(start.at("ts").as_double(), 3);
  EXPECT_EQ(end.at("ts").as_double(), 8);
  EXPECT_EQ(end.at("tid"), entries("X").at(1).at("tid")) << "it ends at the move's slice";
  EXPECT_EQ(entries("X").at(0).at("args").at("reason").as_string(), "a \"reason\"\n?");
}

TEST_F(PerfettoTraceTest, CountsWhatFindsTheBufferFull) {
  PerfettoTrace trace(file(), 3);
  for (int i = 0; i < 10; ++i) trace.add(move(i, i + 1));
  EXPECT_EQ(trace.lost(), 7U);
  trace.flush();
  trace.add(move(20, 21));
  trace.flush();
  EXPECT_EQ(entries("X").size(), 4U);
}

TEST_F(PerfettoTraceTest, CountsWhatAFullDiskTakesAndSaysSoOnce) {
  testing::internal::CaptureStderr();
  PerfettoTrace trace("/dev/full");
  for (int i = 0; i < 3; ++i) {
    trace.add(move(i, i + 1));
    trace.flush();
  }
  EXPECT_EQ(trace.lost(), 3U);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t first = said.find("VMART_TIMELINE");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("VMART_TIMELINE", first + 1), std::string::npos) << said;
}

TEST_F(PerfettoTraceTest, IsWholeAgainBehindAWriteThatFellShort) {
  // A limit on the file size simulates a disk that fills up in the middle of a write.
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    PerfettoTrace trace(file());
    trace.add(move(1, 2));
    trace.flush();
    for (int i = 0; i < 1000; ++i) trace.add(move(i, i + 1));
    trace.flush();
    const bool counted = trace.lost() == 1000;
    trace.add(move(5, 6));
    trace.flush();
    _exit(counted && trace.lost() == 1000 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(entries("X").size(), 2U);
}

TEST_F(PerfettoTraceTest, RefusesAFileThatCannotBeWritten) {
  EXPECT_THROW(PerfettoTrace(file() + "/none"), Error);
}

TEST_F(PerfettoTraceTest, PutsTheProcessIntoItsName) {
  { PerfettoTrace trace(file() + ".%p"); }
  EXPECT_TRUE(std::filesystem::exists(file() + "." + std::to_string(getpid())));
}

TEST_F(PerfettoTraceTest, IsNotWrittenByAForkedChild) {
  PerfettoTrace trace(file());
  trace.add(move(1, 2));
  const pid_t child = fork();
  if (child == 0) {
    trace.flush();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(text(), "");
  trace.flush();
  EXPECT_EQ(entries("X").size(), 1U);
}

TEST_F(PerfettoTraceTest, TakesEntriesFromSeveralThreadsWhileItIsFlushed) {
  PerfettoTrace trace(file());
  const auto record = [&] {
    for (int i = 0; i < 1000; ++i) trace.add(move(i, i + 1));
  };
  std::thread first(record), second(record);
  for (int i = 0; i < 50; ++i) trace.flush();
  first.join();
  second.join();
  trace.flush();
  EXPECT_EQ(entries("X").size(), 2000U);
}

}  // namespace
}  // namespace vma
