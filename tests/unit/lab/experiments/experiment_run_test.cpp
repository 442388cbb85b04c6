// Goal: experiments give the same bytes with any number of threads and after any interruption, and
// errors are refused before anything runs.
#include "unit/lab/experiments/experiment_rig.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <sys/resource.h>

namespace vma {
namespace {

namespace fs = std::filesystem;

const char* const first_id = "test-2~drift~stay_put~prefix~s1";

std::size_t cells_in(const std::map<std::string, std::string>& results) {
  std::size_t cells = 0;
  for (const auto& [name, bytes] : results) cells += name.starts_with("cells/") ? 1 : 0;
  return cells;
}

/// An experiment with one trace, from a file.
std::string experiment_of(const std::string& trace) {
  return fmt::format(R"({{
  "experiment": "own",
  "machines": ["test-2"],
  "traces": [
    {{"name": "own", "file": "{}"}}],
  "policies": ["stay_put"]}})",
                     trace);
}

TEST(ExperimentRun, GivesTheSameBytesOnAnyNumberOfThreads) {
  ExperimentRig rig;
  const RunOutcome outcome = rig.run("one", 1);
  EXPECT_EQ(outcome.cells, 8u);
  EXPECT_EQ(outcome.finished, 8u);
  EXPECT_TRUE(outcome.failed.empty());
  rig.run("three", 3);
  rig.run("many", 20);
  const auto one = rig.results("one");
  EXPECT_EQ(cells_in(one), 8u);
  EXPECT_TRUE(one.contains("traces/drift~s2.vtrace"));
  EXPECT_NE(one.at("results.csv")
                .find("\n" + std::string(first_id) + ",test-2,drift,synthetic,stay_put,"),
            std::string::npos);
  EXPECT_NE(one.at("summary.csv").find("\ntest-2,drift,stay_put,prefix,2,"), std::string::npos);
  EXPECT_EQ(one, rig.results("three"));
  EXPECT_EQ(one, rig.results("many"));
}

TEST(ExperimentRun, DoesOnlyWhatIsNotFinished) {
  ExperimentRig rig;
  rig.run("whole", 2);
  const auto whole = rig.results("whole");
  rig.watcher.ids.clear();
  rig.run("whole", 2);
  EXPECT_TRUE(rig.watcher.ids.empty());
  EXPECT_EQ(rig.watcher.began_with, std::pair(std::size_t{8}, std::size_t{8}));

  fs::remove(rig / "whole/cells/" + std::string(first_id) + ".json");
  const std::string cut = rig / "whole/cells/full~drift~stay_put~prefix~s2.json";
  fs::resize_file(cut, fs::file_size(cut) / 2);
  fs::remove(rig / "whole/traces/drift~s1.vtrace");
  fs::resize_file(rig / "whole/traces/drift~s2.vtrace", 1000);
  fs::remove(rig / "whole/results.csv");
  rig.run("whole", 3);
  EXPECT_EQ(rig.watcher.ids.size(), 2u);
  EXPECT_EQ(whole, rig.results("whole"));
}

TEST(ExperimentRun, ACellThatIsCutAnywhereIsDoneAnew) {
  ExperimentRig rig;
  rig.run("whole", 2);
  const auto whole = rig.results("whole");
  const std::string file = rig / "whole/cells/" + std::string(first_id) + ".json";
  const std::string bytes = text_of(file);
  for (const std::size_t left :
       {std::size_t{0}, std::size_t{1}, bytes.size() - 2, bytes.size() - 1}) {
    SCOPED_TRACE(left);
    fs::resize_file(file, left);
    rig.watcher.ids.clear();
    rig.run("whole", 1);
    EXPECT_EQ(rig.watcher.ids, std::vector<std::string>{first_id});
    EXPECT_EQ(whole, rig.results("whole"));
  }
}

TEST(ExperimentRun, AStopLetsCellsEndAndTheNextRunGoesOn) {
  ExperimentRig rig;
  rig.run("whole", 1);
  rig.watcher.then = [&](std::size_t cells) { rig.watcher.stopped = cells >= 8 + 3; };
  const RunOutcome outcome = rig.run("stopped", 2);
  EXPECT_TRUE(outcome.stopped);
  EXPECT_GE(outcome.finished, 3u);
  EXPECT_LT(outcome.finished, 8u);
  const auto stopped = rig.results("stopped");
  EXPECT_EQ(cells_in(stopped), outcome.finished);
  EXPECT_FALSE(stopped.contains("results.csv"));
  rig.watcher.stopped = false;
  rig.watcher.then = nullptr;
  rig.run("stopped", 1);
  EXPECT_EQ(rig.results("whole"), rig.results("stopped"));
}

TEST(ExperimentRun, AKillLeavesWholeFilesOnly) {
  ExperimentRig rig;
  rig.run("whole", 1);
  const auto whole = rig.results("whole");
  rig.watcher.ids.clear();
  for (const std::size_t cells : {1, 2}) {
    EXPECT_EXIT(
        {
          rig.watcher.then = [&](std::size_t done) {
            if (done == cells) raise(SIGKILL);
          };
          rig.run("killed", 3);
        },
        ::testing::KilledBySignal(SIGKILL), "");
    for (const auto& [name, bytes] : rig.results("killed")) {
      if (name.starts_with("unfinished")) continue;
      EXPECT_EQ(bytes, whole.at(name)) << name;
    }
  }
  EXPECT_LT(cells_in(rig.results("killed")), 8u);
  EXPECT_TRUE(rig.results("killed").contains("unfinished"));
  rig.run("killed", 3);
  EXPECT_EQ(whole, rig.results("killed"));
}

TEST(ExperimentRun, CellsOneByOneAreThoseOfAWholeRun) {
  ExperimentRig rig;
  rig.run("whole", 1);
  const auto whole = rig.results("whole");
  rig.run("single", 1, {first_id});
  EXPECT_EQ(cells_in(rig.results("single")), 1u);
  EXPECT_FALSE(rig.results("single").contains("results.csv"));
  EXPECT_FALSE(rig.results("single").contains("traces/drift~s2.vtrace"));
  const std::vector<std::string> ids(rig.watcher.ids.begin(), rig.watcher.ids.begin() + 8);
  for (const std::string& id : ids) rig.run("single", 1, {id});
  rig.run("single", 1);
  EXPECT_EQ(whole, rig.results("single"));
  EXPECT_NE(error_of([&] { rig.run("single", 1, {"none"}); }).find("has no cell \"none\""),
            std::string::npos);
}

TEST(ExperimentRun, RefusesAFolderThatIsNotItsOwn) {
  ExperimentRig rig;
  rig.run("whole", 1);
  const auto whole = rig.results("whole");
  std::string other(quick_experiment);
  other.replace(other.find("[1, 2]"), 6, "[2, 1]");
  rig.write(other);
  EXPECT_NE(error_of([&] { rig.run("whole", 1); }).find("is of an experiment other than"),
            std::string::npos);
  EXPECT_EQ(whole, rig.results("whole"));

  fs::create_directory(rig / "home");
  write_text(rig / "home/letter.txt", "dear");
  EXPECT_NE(error_of([&] { rig.run("home", 1); }).find("contains letter.txt but no "),
            std::string::npos);
  EXPECT_EQ(rig.results("home").size(), 1u);
  EXPECT_NE(error_of([&] { rig.run("home/letter.txt", 1); }).find("letter.txt: "),
            std::string::npos);
}

TEST(ExperimentRun, RefusesToMixResultsOfAnotherTrace) {
  ExperimentRig rig(experiment_of("own.jsonl"));
  const std::string events =
      "{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":4096}\n"
      "{\"event\":\"access\",\"time_ns\":1000,\"object\":1,\"bytes\":4096}\n";
  write_text(rig / "own.jsonl", events);
  rig.run("own", 1);
  const auto own = rig.results("own");
  write_text(rig / "own.jsonl", events + "{\"event\":\"free\",\"time_ns\":2000,\"object\":1}\n");
  const std::string what = error_of([&] { rig.run("own", 1); });
  EXPECT_NE(
      what.find("cells/test-2~own~stay_put~prefix~s1.json: was made from other inputs: trace_sum"),
      std::string::npos)
      << what;
  EXPECT_EQ(own, rig.results("own"));
}

TEST(ExperimentRun, RefusesToMixResultsOfAnotherVersion) {
  ExperimentRig rig(experiment_of("own.jsonl"));
  write_text(rig / "own.jsonl",
             "{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":4096}\n");
  rig.run("own", 1);
  const std::string file = rig / "own/cells/test-2~own~stay_put~prefix~s1.json";
  std::string bytes = text_of(file);
  const std::string key = "\"version\":\"";
  ASSERT_NE(bytes.find(key), std::string::npos);
  write_text(file, bytes.insert(bytes.find(key) + key.size(), "0.0.0 of "));
  const std::string what = error_of([&] { rig.run("own", 1); });
  EXPECT_NE(what.find("was made from other inputs: version is \"0.0.0 of "), std::string::npos)
      << what;
}

TEST(ExperimentRun, RefusesTracesByFileLineAndReasonBeforeAnythingRuns) {
  const std::string alloc = "{\"event\":\"alloc\",\"time_ns\":5,\"object\":1,\"bytes\":4096}\n";
  const struct {
    std::string events, says;
  } wrong[] = {
      {"", "own.jsonl: there are no events"},
      {alloc + "{\"event\":\"free\",\"time_ns\":4,\"object\":1}\n", "own.jsonl: line 2: "},
      {alloc + "nothing\n", "own.jsonl: line 2: "},
      {alloc + "{\"event\":\"free\",\"time_ns\":6,\"object\":2}\n",
       "own.jsonl: event 2: object 2 does not exist; 1 events do not fit"},
  };
  for (const auto& it : wrong) {
    SCOPED_TRACE(it.says);
    ExperimentRig rig(experiment_of("own.jsonl"));
    write_text(rig / "own.jsonl", it.events);
    const std::string what = error_of([&] { rig.run("own", 2); });
    EXPECT_NE(what.find("experiment.json: traces[0]: "), std::string::npos) << what;
    EXPECT_NE(what.find(it.says), std::string::npos) << what;
    EXPECT_EQ(cells_in(rig.results("own")), 0u);
    EXPECT_TRUE(rig.watcher.ids.empty());
  }
}

TEST(ExperimentRun, ACellThatFailsDoesNotEndTheOthers) {
  ExperimentRig rig(R"({"experiment": "one fails", "machines": ["test-2"], "policies": ["stay_put"],
    "chunk_mib": 0.001, "traces": [{"name": "bad", "file": "bad.jsonl"}, {"name": "good", "file": "good.jsonl"}]})");
  const std::string alloc = "{{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":{}}}\n";
  write_text(rig / "bad.jsonl", fmt::format(fmt::runtime(alloc), std::uint64_t{1} << 32));
  write_text(rig / "good.jsonl", fmt::format(fmt::runtime(alloc), 4096));
  const RunOutcome outcome = rig.run("results", 1);
  EXPECT_EQ(outcome.finished, 1u);
  EXPECT_FALSE(outcome.stopped);
  ASSERT_EQ(outcome.failed.size(), 1u);
  EXPECT_EQ(outcome.failed.at(0).first, "test-2~bad~stay_put~prefix~s1");
  EXPECT_NE(outcome.failed.at(0).second.find("chunks"), std::string::npos);
  const auto results = rig.results("results");
  EXPECT_EQ(cells_in(results), 1u);
  EXPECT_EQ(results.at("results.csv").find("bad"), std::string::npos);
  EXPECT_NE(results.at("results.csv").find("test-2~good~stay_put~prefix~s1"), std::string::npos);
}

/// Runs in a separate process. A file size limit fails the same call as a full disk does.
[[noreturn]] void run_on_a_full_disk(ExperimentRig& rig, const std::string& folder) {
  rig.watcher.at_begin = [] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = 1024;
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const std::string what = error_of([&] { rig.run(folder, 2); });
  std::fputs(what.c_str(), stderr);
  std::exit(what.find("driver_failure") != std::string::npos ? 0 : 1);
}

TEST(ExperimentRun, ADiskThatIsFullIsAnErrorAndLeavesNothingTorn) {
  ExperimentRig rig;
  rig.run("whole", 1);
  const auto whole = rig.results("whole");
  rig.run("full", 1, {first_id, "test-2~drift~stay_put~prefix~s2"});
  EXPECT_EXIT(run_on_a_full_disk(rig, "full"), ::testing::ExitedWithCode(0), "File too large");
  EXPECT_EQ(cells_in(rig.results("full")), 2u);
  rig.run("full", 2);
  EXPECT_EQ(whole, rig.results("full"));
}

}  // namespace
}  // namespace vma
