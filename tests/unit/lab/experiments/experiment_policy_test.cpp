// Goal: an experiment loads policies from shared objects and notices when one has changed. Method:
// the library of `policy_library_test`, which moves each chunk to its user.
#include "unit/lab/experiments/experiment_rig.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace vma {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view experiment = R"({
  "experiment": "own policies",
  "machines": ["test-2"],
  "traces": [
    {"name": "drift", "generate": "zipf-drift", "parameters":
      {"gpus": 2, "object_bytes": 4194304, "length_s": 0.3, "objects": 28, "accesses_s": 200}}],
  "policies": ["stay_put", {"policy": "follow@./own.so", "sweep": {"uses": [1, 2]}}],
  "bounds": true
})";

class ExperimentPolicy : public testing::Test {
 protected:
  ExperimentPolicy() { fs::copy_file(VMART_POLICY_LIBRARY, rig_ / "own.so"); }

  /// Replaces the library by another file of the same name, as a rebuild does.
  void change_library() {
    const std::string other = rig_ / "other.so";
    fs::copy_file(VMART_POLICY_LIBRARY, other);
    std::ofstream(other, std::ios::app | std::ios::binary) << "changed";
    fs::rename(other, rig_ / "own.so");
  }
  static std::size_t count(const std::map<std::string, std::string>& results,
                           const std::string& text) {
    std::size_t files = 0;
    for (const auto& [name, bytes] : results) files += bytes.find(text) != std::string::npos;
    return files;
  }

  ExperimentRig rig_{experiment};
};

TEST_F(ExperimentPolicy, OfASharedObjectDecidesInItsCells) {
  const RunOutcome outcome = rig_.run("results", 2);
  EXPECT_EQ(outcome.finished, 3u);
  EXPECT_TRUE(outcome.failed.empty());
  const auto results = rig_.results("results");
  EXPECT_EQ(count(results, "\"policy\":\"follow@./own.so:uses=2\""), 1u) << "as the file has it";
  EXPECT_EQ(count(results, "\"policy_sum\":\""), 2u) << "of the policy's cells, and of no bound";
  EXPECT_EQ(count(results, "\"moves\":0,"), 1u) << "of stay_put";
  EXPECT_EQ(count(results, "\"policy_failures\":0"), 3u);
}

TEST_F(ExperimentPolicy, ThatIsTheSameIsNotRunAgain) {
  rig_.run("results");
  rig_.watcher.ids.clear();
  rig_.run("results");
  EXPECT_TRUE(rig_.watcher.ids.empty());
}

TEST_F(ExperimentPolicy, ThatHasChangedIsNotMixedWithItsFormerResults) {
  rig_.run("results");
  change_library();
  const std::string what = error_of([&] { rig_.run("results"); });
  EXPECT_NE(what.find("was made from other inputs: policy_sum is "), std::string::npos) << what;
  for (const auto& cell : fs::directory_iterator(rig_ / "results/cells")) {
    if (cell.path().string().find("follow") != std::string::npos) fs::remove(cell.path());
  }
  rig_.watcher.ids.clear();
  EXPECT_EQ(rig_.run("results").finished, 3u);
  EXPECT_EQ(rig_.watcher.ids.size(), 2u) << "its own cells, and none of stay_put";
}

TEST_F(ExperimentPolicy, ThatIsNotThereIsRefusedWithItsPlace) {
  fs::remove(rig_ / "own.so");
  const std::string what = error_of([&] { rig_.run("results"); });
  EXPECT_NE(what.find("json: policies[1]: "), std::string::npos) << what;
  EXPECT_NE(what.find(rig_ / "own.so"), std::string::npos) << what;
}

}  // namespace
}  // namespace vma
