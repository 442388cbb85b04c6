// Goal: a trace in a folder of results equals the one that would be made now; otherwise the folder
// is refused or the trace is made again, before any cell runs.
#include "lab/experiments/experiment_reader.hpp"
#include "lab/experiments/ready_trace.hpp"
#include "unit/lab/experiments/experiment_rig.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view request =
    "{\"timestamp\":0,\"input_length\":600,\"output_length\":2,\"hash_ids\":[1,2]}\n";

/// Traces converted from one file and from two files; the second format finds its table by itself.
class ConvertedTraces : public testing::Test {
 protected:
  ConvertedTraces() {
    write_text(rig_ / "chat.jsonl", request);
    write_text(rig_ / "net_kernels.jsonl", "{\"us\":1,\"in\":[1],\"out\":[1]}\n");
    write_text(rig_ / "net_tensors.csv", "tensor,is_weight,bytes\n1,1,4096\n");
    rig_.run("results");
    results_ = rig_.results("results");
    rig_.watcher.ids.clear();
  }
  /// The error of the next run, which must change no file and run nothing.
  std::string refused() {
    const std::string what = error_of([&] { rig_.run("results", 2); });
    EXPECT_EQ(results_, rig_.results("results"));
    EXPECT_TRUE(rig_.watcher.ids.empty());
    return what;
  }

  ExperimentRig rig_{R"({
  "experiment": "converted", "machines": ["test-2"], "policies": ["stay_put"],
  "traces": [{"name": "chat", "convert": "mooncake", "input": "chat.jsonl", "parameters": {"closed": 0}},
             {"name": "net", "convert": "g10", "input": "net_kernels.jsonl", "parameters": {"closed": 0}}]})"};
  std::map<std::string, std::string> results_;
};

TEST_F(ConvertedTraces, AnotherInputIsRefusedByItsName) {
  write_text(rig_ / "chat.jsonl", std::string(request) + std::string(request));
  const std::string what = refused();
  EXPECT_NE(what.find("experiment.json: traces[0]: "), std::string::npos) << what;
  EXPECT_NE(
      what.find(
          "traces/chat~s1.json: was made from other inputs: input_sums is {\"chat.jsonl\":\""),
      std::string::npos)
      << what;
  write_text(rig_ / "chat.jsonl", request);
  EXPECT_EQ(refused(), "");
}

TEST_F(ConvertedTraces, SoIsAnotherTableThatBelongsToTheInput) {
  write_text(rig_ / "net_tensors.csv", "tensor,is_weight,bytes\n1,1,8192\n");
  const std::string what = refused();
  EXPECT_NE(
      what.find(
          "traces/net~s1.json: was made from other inputs: input_sums is {\"net_kernels.jsonl"),
      std::string::npos)
      << what;
}

TEST_F(ConvertedTraces, AnInputThatHasGoneIsRefused) {
  fs::remove(rig_ / "net_tensors.csv");
  EXPECT_NE(refused().find("with NAME_tensors.csv in the same folder"), std::string::npos);
}

TEST_F(ConvertedTraces, FilesAreAllThatBelongToTheInput) {
  using Files = std::vector<std::string>;
  const Experiment experiment = read_experiment(rig_ / "experiment.json");
  EXPECT_EQ(files_of(experiment.traces.at(0)), Files{rig_ / "chat.jsonl"});
  EXPECT_EQ(files_of(experiment.traces.at(1)),
            (Files{rig_ / "net_kernels.jsonl", rig_ / "net_tensors.csv"}));
}

TEST_F(ConvertedTraces, WhatIsNotWholeIsMadeAnew) {
  const std::string trace = rig_ / "results/traces/chat~s1.vtrace";
  const std::string note = rig_ / "results/traces/chat~s1.json";
  fs::remove(note);
  EXPECT_EQ(refused(), "");
  fs::resize_file(note, fs::file_size(note) / 2);
  EXPECT_EQ(refused(), "");
  fs::copy_file(rig_ / "results/traces/net~s1.vtrace", trace, fs::copy_options::overwrite_existing);
  EXPECT_EQ(refused(), "") << "a whole trace, but another";
  write_text(rig_ / "chat.jsonl", std::string(request) + std::string(request));
  fs::remove(note);
  const std::string what = error_of([&] { rig_.run("results", 2); });
  EXPECT_NE(
      what.find("cells/test-2~chat~stay_put~prefix~s1.json: was made from other inputs: trace_sum"),
      std::string::npos)
      << "nobody knows of what it was made, but the cells are of another: " << what;
}

}  // namespace
}  // namespace vma
