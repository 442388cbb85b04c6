// Goal: an experiment's file expands to the right cells, and errors in it are refused with clear
// messages.
#include "lab/experiments/experiment.hpp"
#include "lab/experiments/experiment_reader.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <utility>

namespace vma {
namespace {

const char* const sample = R"({
  "experiment": "sample",
  "machines": ["test-2",
    {"name": "a small one", "machine": "test-2", "hbm_gib": 0.5, "host_gib": 2}],
  "traces": [
    {"name": "drift", "generate": "zipf-drift", "parameters": {"objects": 40, "skew": 0.5}},
    {"name": "prompts", "convert": "mooncake", "input": "requests.jsonl"},
    {"name": "own", "file": "./own.vtrace"}
  ],
  "policies": ["stay_put",
    {"policy": "cost_benefit", "sweep": {"margin": [1, 1.25], "horizon": ["1s", "2s"]}}],
  "routers": ["hash", "least_loaded"],
  "pacing": "at_once",
  "chunk_mib": 2,
  "seeds": [3, 4]
})";

class ExperimentReader : public ::testing::Test {
 protected:
  ExperimentReader() {
    write_text(folder_ / "own.vtrace", "");  // Only its existence is checked.
    write_text(folder_ / "requests.jsonl", "");
  }
  Experiment read(const std::string& text) {
    write_text(folder_ / "sample.json", text);
    return read_experiment(folder_ / "sample.json");
  }
  /// The sample with one part replaced.
  static std::string with(const std::string& piece, const std::string& other) {
    std::string text = sample;
    const std::size_t at = text.find(piece);
    EXPECT_NE(at, std::string::npos) << piece;
    return text.replace(at, piece.size(), other);
  }

  TemporaryFolder folder_;
};

TEST_F(ExperimentReader, ReadsAllThatTheFileSays) {
  const Experiment experiment = read(sample);
  EXPECT_EQ(experiment.text, sample);
  EXPECT_EQ(experiment.name, "sample");
  ASSERT_EQ(experiment.machines.size(), 2u);
  EXPECT_EQ(experiment.machines[1].name, "a small one");
  EXPECT_EQ(experiment.machines[1].machine.places[1].capacity_bytes, std::uint64_t{512} << 20);
  EXPECT_EQ(experiment.machines[1].machine.places.back().capacity_bytes, std::uint64_t{2} << 30);
  ASSERT_EQ(experiment.traces.size(), 3u);
  EXPECT_EQ(experiment.traces[0].values, (std::vector<std::string>{"objects=40", "skew=0.5"}));
  EXPECT_EQ(experiment.traces[1].input, folder_ / "requests.jsonl");
  EXPECT_EQ(experiment.traces[2].input, folder_ / "own.vtrace");
  EXPECT_EQ(experiment.traces[0].origin, ExperimentTrace::Origin::synthetic);
  EXPECT_EQ(experiment.traces[1].origin, ExperimentTrace::Origin::real);
  EXPECT_EQ(experiment.traces[2].origin, ExperimentTrace::Origin::real);
  EXPECT_EQ(experiment.policies,
            (std::vector<std::string>{
                "stay_put", "cost_benefit:margin=1,horizon=1s", "cost_benefit:margin=1,horizon=2s",
                "cost_benefit:margin=1.25,horizon=1s", "cost_benefit:margin=1.25,horizon=2s"}));
  EXPECT_EQ(experiment.routers, (std::vector<std::string>{"hash", "least_loaded"}));
  EXPECT_EQ(experiment.pacing, Pacing::at_once);
  EXPECT_EQ(experiment.chunk_bytes, std::uint64_t{2} << 20);
  EXPECT_EQ(experiment.seeds, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_FALSE(experiment.bounds);
}

TEST_F(ExperimentReader, ATraceSaysWhatItIs) {
  for (const auto& [text, origin] : {std::pair("real", ExperimentTrace::Origin::real),
                                     {"synthetic", ExperimentTrace::Origin::synthetic},
                                     {"held_out", ExperimentTrace::Origin::held_out}}) {
    const std::string piece = "\"name\": \"own\"";
    const Experiment experiment = read(with(piece, piece + ", \"kind\": \"" + text + "\""));
    EXPECT_EQ(experiment.traces[2].origin, origin);
    EXPECT_EQ(to_string(origin), text);
  }
}

TEST_F(ExperimentReader, ASharedHbmIsKeptBesideTheMachineAsItIs) {
  const Experiment experiment = read(with("\"hbm_gib\": 0.5", "\"hbm_share\": 0.25"));
  EXPECT_EQ(experiment.machines[0].hbm_share, std::nullopt);
  EXPECT_EQ(experiment.machines[1].hbm_share, 0.25);
  EXPECT_EQ(experiment.machines[1].machine.places[0].capacity_bytes,
            experiment.machines[0].machine.places[0].capacity_bytes);
  EXPECT_EQ(experiment.machines[1].machine.places.back().capacity_bytes, std::uint64_t{2} << 30);
}

TEST_F(ExperimentReader, SaysHowRequestsAreAdmitted) {
  const std::string piece = "\"pacing\": \"at_once\"";
  const Experiment usual = read(with(piece, piece));
  EXPECT_EQ(usual.admission, Admission::preempt);
  EXPECT_EQ(usual.admission_memory, AdmissionMemory::all);
  EXPECT_EQ(usual.limits.first, std::nullopt);
  const Experiment other =
      read(with(piece, piece + R"(, "admission": "queue", "admission_memory": "hbm",
                                "slo_first_ms": 500, "slo_step_ms": 0.5)"));
  EXPECT_EQ(other.admission, Admission::queue);
  EXPECT_EQ(other.admission_memory, AdmissionMemory::hbm);
  EXPECT_EQ(other.limits.first, Time(500'000'000));
  EXPECT_EQ(other.limits.step, Time(500'000));
}

TEST_F(ExperimentReader, LeavesOutWhatHasADefault) {
  const Experiment experiment = read(R"({"experiment": "x", "machines": ["test-2"],
    "traces": [{"name": "t", "generate": "serving"}], "policies": ["stay_put"]})");
  EXPECT_EQ(experiment.routers, std::vector<std::string>{"prefix"});
  EXPECT_EQ(experiment.pacing, Pacing::timed);
  EXPECT_EQ(experiment.chunk_bytes, std::uint64_t{32} << 20);
  EXPECT_EQ(experiment.seeds, std::vector<std::uint64_t>{1});
}

TEST_F(ExperimentReader, RefusesByPathAndReason) {
  const struct {
    const char *piece, *other, *says;
  } wrong[] = {
      {"\"experiment\": \"sample\",", "", "experiment: is missing"},
      {"\"pacing\"", "\"passing\"",
       "passing: is not a known key of this object; did you mean \"pacing\"?"},
      {"\"experiment\"", "\"experimant\"",
       "experimant: is not a known key of this object; did you mean"},
      {"\"chunk_mib\"", "\"colour\"",
       "colour: is not a known key of this object; expected one of exp"},
      {"\"pacing\": \"at_once\"", "\"seeds\": [1]", "line 15: seeds: appears twice"},
      {"\"at_once\"", "\"fast\"", "pacing: replay: invalid_argument: "},
      {"\"pacing\": \"at_once\"", "\"admission\": \"fifo\"",
       "admission: replay: invalid_argument: 'fifo' is not an admission; known are"},
      {"\"pacing\": \"at_once\"", "\"slo_step_ms\": -1", "slo_step_ms: -1 is not betw"},
      {"[\"test-2\",", "[\"h900\",", "machines[0]: load_machine: invalid_argument: no mach"},
      {"\"machine\": \"test-2\"", "\"machine\": \"./none.json\"", "machines[1].machine: "},
      {"\"hbm_gib\": 0.5", "\"hbm_gib\": 0", "machines[1].hbm_gib: 0 is not between"},
      {"\"hbm_gib\": 0.5", "\"hbm_share\": 0", "machines[1].hbm_share: 0 is not between"},
      {"\"hbm_gib\": 0.5", "\"hbm_share\": 65", "machines[1].hbm_share: 65 is not between"},
      {"\"hbm_gib\": 0.5", "\"hbm_share\": \"half\"", "machines[1].hbm_share: "},
      {"\"hbm_gib\": 0.5", "\"hbm_gib\": 0.5, \"hbm_share\": 0.5",
       "machines[1].hbm_share: cannot be combined with hbm_gib"},
      {"\"hbm_gib\": 0.5", "\"hbm\": 0.5",
       "machines[1].hbm: is not a known key of this object; did you mean \"hbm_"},
      {"\"a small one\"", "\"test-2\"", "machines[1]: \"test-2\" was already used"},
      {"[\"test-2\",", "[7,", "machines[0]: is not an object"},
      {"zipf-drift", "zipf", "traces[0].generate: traces: invalid_argument: there is no"},
      {"\"objects\": 40", "\"objects\": 0", "traces[0].generate: TraceValues"},
      {"\"objects\": 40", "\"objects\": \"x\"", "traces[0].parameters.objects: is not a number"},
      {"mooncake", "moon", "traces[1].convert: traces: invalid_argument: there is no"},
      {"requests.jsonl", "none.jsonl", "traces[1].input: "},
      {"./own.vtrace", "none.vtrace", "traces[2].file: "},
      {"\"file\": \"./own.vtrace\"", "\"filed\": 1", "traces[2].filed: is not a known key"},
      {", \"file\": \"./own.vtrace\"", "", "traces[2]: must have one of generate"},
      {"\"file\": \"./own.vtrace\"", "\"file\": \"./own.vtrace\", \"parameters\": {}",
       "traces[2].parameters: is not a known key of this object"},
      {"\"name\": \"own\"", "\"name\": \"drift\"", "traces[2]: \"drift\" was already used"},
      {"\"name\": \"own\"", "\"name\": \"own\", \"kind\": \"fake\"",
       "traces[2].kind: is none of real, synthetic, held_out"},
      {"[\"stay_put\",", "[\"best\",", "policies[0]: policy: invalid_argument: there is "},
      {"[\"stay_put\",", "[\"stay_put\", \"stay_put\",",
       "policies[1]: \"stay_put\" was already used"},
      {"[1, 1.25]", "[1, 0.001]", "policies[1]: "},
      {"[1, 1.25]", "[]", "policies[1].sweep.margin: is not a list of values"},
      {"[1, 1.25]", "[[1]]", "policies[1].sweep.margin: contains something other than a number"},
      {"\"margin\"", "\"marge\"", "policies[1]: "},
      {"\"least_loaded\"", "\"nearest\"", "routers[1]: "},
      {"\"hash\", ", "{}, ", "routers[0]: must be a string"},
      {"\"chunk_mib\": 2", "\"chunk_mib\": -2", "chunk_mib: -2 is not between"},
      {"[3, 4]", "[3, 3]", "seeds[1]: \"3\" was already used above"},
      {"[3, 4]", "[3, 0.5]", "seeds[1]: is not a whole number from 0 to 2^53"},
      {"[3, 4]", "[]", "seeds: is empty"},
      {"[3, 4]", "[3 4]", ""},
  };
  for (const auto& it : wrong) {
    SCOPED_TRACE(it.other);
    const std::string what = error_of([&] { read(with(it.piece, it.other)); });
    EXPECT_NE(what.find("sample.json: "), std::string::npos) << what;
    EXPECT_NE(what.find(it.says), std::string::npos) << what;
  }
  EXPECT_NE(error_of([] { read_experiment("none.json"); }).find("none.json: cannot be read"),
            std::string::npos);
}

TEST_F(ExperimentReader, ReportsAMisspeltKeyOnceAndNotTheOneThatIsMissing) {
  const std::string what = error_of([&] { read(with("\"machines\"", "\"machinse\"")); });
  EXPECT_NE(what.find("machinse: is not a known key of this object; did you mean \"machines\"?"),
            std::string::npos)
      << what;
  EXPECT_EQ(what.find("is missing"), std::string::npos) << what;
  EXPECT_EQ(what.find("problems"), std::string::npos) << what;
}

TEST_F(ExperimentReader, ReportsAllProblemsAtOnce) {
  std::string text = with("\"experiment\": \"sample\",", "");
  for (const auto& [piece, other] : std::initializer_list<std::pair<std::string, std::string>>{
           {"\"test-2\",", "\"h900\","},
           {"0.5, \"host_gib\"", "0, \"hots_gib\""},
           {"zipf-drift", "zipf"},
           {"requests.jsonl", "none.jsonl"},
           {"stay_put", "best"},
           {"least_loaded", "nearest"},
           {"at_once", "fast"},
           {"[3, 4]", "[3, -4, \"x\"]"}}) {
    const std::size_t at = text.find(piece);
    ASSERT_NE(at, std::string::npos) << piece;
    text.replace(at, piece.size(), other);
  }
  const std::string what = error_of([&] { read(text); });
  for (const char* part :
       {"11 problems\n", "experiment: is missing", "machines[0]: load_machine",
        "machines[1].hbm_gib: 0 is",
        "machines[1].hots_gib: is not a known key of this object; did you mean \"host_gib\"?",
        "traces[0].generate: ", "traces[1].input: ", "policies[0]: ", "routers[1]: ", "pacing: ",
        "seeds[1]: is not a whole", "seeds[2]: is not a whole"}) {
    EXPECT_NE(what.find(part), std::string::npos) << part << " in\n" << what;
  }
}

TEST_F(ExperimentReader, CellsComeInTheOrderOfTheFileEachWithAnIdOfItsOwn) {
  const Experiment experiment = read(sample);
  const std::vector<ExperimentCell> cells = cells_of(experiment);
  // A trace from a file has a single seed.
  ASSERT_EQ(cells.size(), 2u * 5 * 2 * (2 + 2 + 1));
  EXPECT_EQ(cells[0].id, "test-2~drift~stay_put~hash~s3");
  EXPECT_EQ(cells[1].id, "test-2~drift~stay_put~hash~s4");
  EXPECT_EQ(cells[2].id, "test-2~drift~stay_put~least_loaded~s3");
  EXPECT_EQ(cells[4].id, "test-2~drift~cost_benefit~margin=1,horizon=1s~hash~s3");
  EXPECT_EQ(cells[50].id.rfind("a_small_one~drift~stay_put~hash~s3~", 0), 0u) << cells[50].id;
  std::set<std::string> ids;
  for (const ExperimentCell& cell : cells) EXPECT_TRUE(ids.insert(cell.id).second) << cell.id;
}

TEST(FileNameOf, IsAFilesNameAndAnotherForOtherParts) {
  EXPECT_EQ(file_name_of({"a", "b=1.5,c", "s1"}), "a~b=1.5,c~s1");
  const std::vector<std::vector<std::string>> all{{"a", "b"},
                                                  {"a~b"},
                                                  {"a b"},
                                                  {"a_b"},
                                                  {"a/b"},
                                                  {"../b"},
                                                  {".._b"},
                                                  {"-a"},
                                                  {"_a"},
                                                  {std::string(300, 'x')},
                                                  {std::string(301, 'x')},
                                                  {"é"},
                                                  {"\n\n"},
                                                  {"a", "", "b"}};
  std::set<std::string> names;
  for (const auto& parts : all) {
    const std::string name = file_name_of(parts);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_LE(name.size(), 230u);
    EXPECT_EQ(name.find('/'), std::string::npos);
    EXPECT_NE(name.front(), '.');
    EXPECT_NE(name.front(), '-');
  }
}

}  // namespace
}  // namespace vma
