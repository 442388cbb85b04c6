// Goal: `vmart doctor` says of a machine which class it is in, and what keeps it from being tested.
// Method: made-up records and machines, and the committed records.
#include "tools/vmart/support.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr RecordedRuns records[] = {{"580.1", "NVIDIA H200", 2, 3, "PyTorch 2.11"},
                                    {"580.1", "NVIDIA H200", 4, 1, ""},
                                    {"580.1", "NVIDIA L4", 1, 2, ""},
                                    {"570.2", "NVIDIA H200", 2, 1, "PyTorch 2.9"}};

Support of(const std::string& driver, std::vector<std::string> gpus, bool mig = false) {
  return support_of({driver, std::move(gpus), mig}, records);
}

TEST(Support, IsTestedWithADriverAndGpusOfRecordedRuns) {
  const Support two = of("CUDA 13.0, driver 580.1", {2, "NVIDIA H200"});
  EXPECT_EQ(two.name, "tested");
  EXPECT_EQ(two.why, "recorded runs have this driver and these GPUs (4 of the table's rows)");
  EXPECT_EQ(two.frameworks, "PyTorch 2.11");
  const Support four = of("CUDA 13.0, driver 580.1", {4, "NVIDIA H200"});
  EXPECT_EQ(four.why, "recorded runs have this driver and these GPUs (1 of the table's rows)");
  EXPECT_EQ(four.frameworks, "") << "PyTorch ran on two";
  EXPECT_EQ(of("CUDA 12.8, driver 570.2", {"NVIDIA H200"}).frameworks, "PyTorch 2.9");
  EXPECT_EQ(of("CUDA 13.0, driver 580.1", {"NVIDIA H200", "NVIDIA L4"}).name, "tested");
}

TEST(Support, IsExpectedOtherwiseAndSaysWhy) {
  const auto why = [](const Support& support) {
    EXPECT_EQ(support.name, "expected");
    EXPECT_EQ(support.frameworks, "");
    return support.why;
  };
  EXPECT_EQ(why(of("CUDA 13.0, driver 580.2", {"NVIDIA H200"})),
            "no recorded run on NVIDIA H200 has driver 580.2 (they have 570.2, 580.1)");
  EXPECT_EQ(
      why(of("CUDA 13.0", {"NVIDIA H200"})),
      "no recorded run on NVIDIA H200 has a driver that says no version (they have 570.2, 580.1)");
  EXPECT_EQ(why(of("CUDA 13.0, driver 580.1", {"NVIDIA B200"})),
            "no recorded run has a NVIDIA B200 (they have NVIDIA H200, NVIDIA L4)");
  EXPECT_EQ(why(of("CUDA 12.8, driver 570.2", {3, "NVIDIA H200"})),
            "recorded runs have at most 2 of NVIDIA H200");
  EXPECT_EQ(why(of("CUDA 13.0, driver 580.1", {"NVIDIA H200"}, true)),
            "no recorded run is of a MIG slice");
  EXPECT_EQ(
      why(of("CUDA 99.4, driver 580.1", {"NVIDIA B200", "NVIDIA H200", "NVIDIA L4"})),
      "no recorded run has a NVIDIA B200 (they have NVIDIA H200, NVIDIA L4); `vmart run` knows "
      "the calls of drivers up to CUDA 13.5");
}

TEST(Support, OfTheCommittedRecordsHasTheMachinesThatTheyName) {
  for (const RecordedRuns& each : recorded_runs) {
    const SupportQuestion machine{
        std::string("CUDA 12.4, driver ") + each.driver,
        std::vector<std::string>(static_cast<std::size_t>(each.gpus), each.gpu)};
    EXPECT_EQ(support_of(machine).name, "tested") << each.driver << " " << each.gpu;
  }
}

}  // namespace
}  // namespace vma
