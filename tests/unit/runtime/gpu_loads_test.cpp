// Goal: a runtime's statistics include what NVML reports about its GPUs, if NVML is asked at all.
// Method: a fake library, named by the environment, which knows any GPU.
#include "unit/runtime/runtime_rig.hpp"
#include "unit/telemetry/nvml_rig.hpp"

#include <cstdlib>

namespace vma {
namespace {

class RuntimeLoads : public NvmlTest {
 protected:
  RuntimeLoads() { unsetenv("VMART_NVML"); }
  ~RuntimeLoads() override { unsetenv("VMART_NVML"); }

  static GpuLoads settled(Runtime& runtime) {
    GpuLoads loads;
    await([&] {
      loads = runtime.stats().loads;
      return loads.state != GpuLoads::State::starting;
    });
    return loads;
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
  const struct {
    const char* setting;
    const char* reason;
  } cases[] = {{"", "the machine is simulated"},
               {"auto", "the machine is simulated"},
               {"1", "the machine is simulated"},
               {"0", "VMART_NVML is 0"}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.setting);
    setenv("VMART_NVML", each.setting, 1);
    RuntimeRig rig;
    const GpuLoads loads = rig.runtime().stats().loads;
    EXPECT_EQ(loads.state, GpuLoads::State::off);
    EXPECT_EQ(loads.reason, each.reason);
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
