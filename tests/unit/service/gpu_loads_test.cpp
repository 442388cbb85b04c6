// Goal: what NVML says of the GPUs of a runtime stands in its statistics, where it is asked at all.
// Method: a library of the test's, which knows any GPU, named by the environment.
#include "unit/service/runtime_rig.hpp"
#include "unit/telemetry/nvml_rig.hpp"

#include <cstdlib>

namespace vma {
namespace {

class RuntimeLoads : public NvmlTest {
 protected:
  ~RuntimeLoads() override { unsetenv("VMART_NVML"); }

  static GpuLoads settled(Runtime& runtime) {
    Poll poll;
    for (;;) {
      GpuLoads loads = runtime.stats().loads;
      if (loads.state != GpuLoads::State::starting) return loads;
      poll.pause();
    }
  }
};

TEST_F(RuntimeLoads, AreThoseOfItsGpus) {
  setenv("VMART_NVML", library, 1);
  RuntimeRig rig;
  const GpuLoads loads = settled(rig.runtime());
  EXPECT_EQ(loads.state, GpuLoads::State::on);
  ASSERT_EQ(loads.gpus.size(), 2u);
  EXPECT_EQ(loads.gpus[0].at, gpu(0));
  EXPECT_EQ(loads.gpus[1].at, gpu(1));
  EXPECT_DOUBLE_EQ(loads.gpus[1].kernels.value(), 0.75);
  rig.runtime().shutdown();
  await_end();
  EXPECT_EQ(nvml.opened, 1);
}

TEST_F(RuntimeLoads, OfASimulatedMachineAreOffUnlessALibraryIsNamed) {
  for (const char* setting : {static_cast<const char*>(nullptr), "0"}) {
    if (setting != nullptr) setenv("VMART_NVML", setting, 1);
    RuntimeRig rig;
    const GpuLoads loads = rig.runtime().stats().loads;
    EXPECT_EQ(loads.state, GpuLoads::State::off);
    EXPECT_NE(loads.reason, "");
    EXPECT_TRUE(loads.gpus.empty());
  }
  EXPECT_EQ(nvml.opened, 0);
}

TEST_F(RuntimeLoads, AreOffWhereTheLibraryIsBroken) {
  setenv("VMART_NVML", "libc.so.6", 1);
  RuntimeRig rig;
  const GpuLoads loads = settled(rig.runtime());
  EXPECT_EQ(loads.state, GpuLoads::State::off);
  EXPECT_NE(loads.reason.find("libc.so.6: it has no nvmlInit_v2"), std::string::npos)
      << loads.reason;
}

}  // namespace
}  // namespace vma
