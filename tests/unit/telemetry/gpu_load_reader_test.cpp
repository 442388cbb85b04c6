// Goal: NVML's values reach the loads in our units; missing or impossible values are left out and
// named; a library that answers nothing counts as off. Method: a fake library in place of NVIDIA's
// that fails each call in turn.
#include "telemetry/gpu_load_reader.hpp"

#include "unit/telemetry/nvml_rig.hpp"

#include <vma/error.hpp>

namespace vma {
namespace {

using std::chrono::milliseconds;

class GpuLoadReaderTest : public NvmlTest {
 protected:
  GpuLoadReader open(std::vector<NamedGpu> gpus = {{gpu(0), "GPU-a"}}) {
    opened.emplace(library);
    return GpuLoadReader(*opened, gpus, clock);
  }
  /// The reason why no reader can be made for this library.
  std::string refusal(const std::string& file, std::vector<NamedGpu> gpus = {{gpu(0), "GPU-a"}}) {
    try {
      const NvmlLibrary refused(file);
      const GpuLoadReader reader(refused, gpus, clock);
      ADD_FAILURE() << file << " was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
      return error.what();
    }
    return "";
  }
  static bool names(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  TestClock clock;
  std::optional<NvmlLibrary> opened;  // One reader at a time.
};

TEST_F(GpuLoadReaderTest, TellsSharesAndBytesAtOnce) {
  GpuLoadReader reader = open();
  const GpuLoads loads = reader.read();
  EXPECT_EQ(loads.state, GpuLoads::State::on);
  EXPECT_EQ(loads.reason, "");
  ASSERT_EQ(loads.gpus.size(), 1u);
  const GpuLoad& load = loads.gpus[0];
  EXPECT_EQ(load.at, gpu(0));
  EXPECT_DOUBLE_EQ(load.kernels.value(), 0.75);
  EXPECT_DOUBLE_EQ(load.memory.value(), 0.2);
  EXPECT_EQ(load.memory_used_bytes, 30u);
  EXPECT_EQ(load.memory_total_bytes, 100u);
  EXPECT_FALSE(load.nvlink_sent_bytes_s || load.pcie_received_bytes_s)
      << "a rate needs two samples";
}

TEST_F(GpuLoadReaderTest, TellsRatesFromTheSecondSampleOn) {
  GpuLoadReader reader = open();
  reader.read();
  clock.advance(milliseconds(500));
  nvml.counters[0] += 10;
  nvml.counters[1] += 20;
  nvml.counters[2] += 3000;
  const GpuLoad load = reader.read().gpus.at(0);
  EXPECT_DOUBLE_EQ(load.nvlink_sent_bytes_s.value(), 10 * 1024 / 0.5);
  EXPECT_DOUBLE_EQ(load.nvlink_received_bytes_s.value(), 20 * 1024 / 0.5);
  EXPECT_DOUBLE_EQ(load.pcie_sent_bytes_s.value(), 6000);
  EXPECT_DOUBLE_EQ(load.pcie_received_bytes_s.value(), 0);
}

TEST_F(GpuLoadReaderTest, ACounterThatFellHasWrappedAndTellsNothingOnce) {
  GpuLoadReader reader = open();
  reader.read();
  clock.advance(milliseconds(1000));
  nvml.counters[2] = 5;
  nvml.counters[3] += 7;
  const GpuLoad wrapped = reader.read().gpus.at(0);
  EXPECT_FALSE(wrapped.pcie_sent_bytes_s);
  EXPECT_DOUBLE_EQ(wrapped.pcie_received_bytes_s.value(), 7);
  const GpuLoad same_time = reader.read().gpus.at(0);
  EXPECT_FALSE(same_time.pcie_received_bytes_s) << "no time has passed";
  clock.advance(milliseconds(1000));
  nvml.counters[2] += 9;
  EXPECT_DOUBLE_EQ(reader.read().gpus.at(0).pcie_sent_bytes_s.value(), 9);
}

TEST_F(GpuLoadReaderTest, ACounterOf32BitsTellsNoRateForItMayHaveWrapped) {
  // Per second; a 32-bit counter wraps after less than a tenth of this.
  constexpr double risen = 5e10;
  for (const bool narrow : {false, true}) {
    SCOPED_TRACE(narrow);
    nvml.counts_pcie_narrowly = narrow;
    GpuLoadReader reader = open();
    reader.read();
    clock.advance(milliseconds(1000));
    nvml.counters[0] += 10;
    nvml.counters[2] += static_cast<std::uint64_t>(risen);
    nvml.counters[3] += 7;
    const GpuLoads loads = reader.read();
    EXPECT_EQ(loads.reason, "") << "nothing failed";
    const GpuLoad& load = loads.gpus.at(0);
    EXPECT_DOUBLE_EQ(load.nvlink_sent_bytes_s.value(), 10 * 1024);
    EXPECT_EQ(load.pcie_sent_bytes_s.has_value(), !narrow);
    EXPECT_EQ(load.pcie_received_bytes_s.has_value(), !narrow);
    EXPECT_DOUBLE_EQ(load.pcie_sent_bytes_s.value_or(risen), risen);
  }
}

TEST_F(GpuLoadReaderTest, LeavesOutWhatACallFailsAndNamesIt) {
  const struct {
    FakeNvml::Call call;
    const char* name;
    bool kernels, used, rates;
  } cases[] = {{FakeNvml::utilisation, "nvmlDeviceGetUtilizationRates", false, true, true},
               {FakeNvml::memory, "nvmlDeviceGetMemoryInfo", true, false, true},
               {FakeNvml::fields, "nvmlDeviceGetFieldValues", true, true, false}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.name);
    nvml.failing = FakeNvml::none;
    GpuLoadReader reader = open();
    reader.read();
    nvml.failing = each.call;
    clock.advance(milliseconds(1000));
    const GpuLoads loads = reader.read();
    EXPECT_EQ(loads.state, GpuLoads::State::on);
    EXPECT_TRUE(names(loads.reason, each.name)) << loads.reason;
    EXPECT_TRUE(names(loads.reason, "Not Supported (3)")) << loads.reason;
    const GpuLoad& load = loads.gpus.at(0);
    EXPECT_EQ(load.kernels.has_value(), each.kernels);
    EXPECT_EQ(load.memory.has_value(), each.kernels);
    EXPECT_EQ(load.memory_used_bytes.has_value(), each.used);
    EXPECT_EQ(load.nvlink_sent_bytes_s.has_value(), each.rates);
    EXPECT_EQ(load.pcie_sent_bytes_s.has_value(), each.rates);
    // There is no rate over a period whose start was not counted.
    nvml.failing = FakeNvml::none;
    clock.advance(milliseconds(1000));
    EXPECT_EQ(reader.read().gpus.at(0).nvlink_sent_bytes_s.has_value(), each.rates);
  }
}

TEST_F(GpuLoadReaderTest, LeavesOutWhatCannotBe) {
  GpuLoadReader reader = open();
  reader.read();
  clock.advance(milliseconds(1000));
  nvml.kernels_percent = 101;
  nvml.used_bytes = 101;
  nvml.has_no_counters = true;
  const GpuLoads loads = reader.read();
  EXPECT_EQ(loads.state, GpuLoads::State::off) << "nothing is left";
  EXPECT_TRUE(loads.gpus.empty());
  EXPECT_TRUE(names(loads.reason, "101 %")) << loads.reason;
  nvml.kernels_percent = 100;
  const GpuLoads some = reader.read();
  EXPECT_EQ(some.state, GpuLoads::State::on);
  EXPECT_DOUBLE_EQ(some.gpus.at(0).kernels.value(), 1);
  EXPECT_FALSE(some.gpus.at(0).memory_used_bytes);
  EXPECT_TRUE(names(some.reason, "101 of 100 bytes")) << some.reason;
  nvml.total_bytes = 0, nvml.used_bytes = 0;
  EXPECT_FALSE(reader.read().gpus.at(0).memory_used_bytes);
}

TEST_F(GpuLoadReaderTest, OneGpuThatTheLibraryDoesNotKnowIsNotTheOthers) {
  GpuLoadReader reader = open({{gpu(0), "GPU-unknown"}, {gpu(3), "GPU-b"}});
  const GpuLoads loads = reader.read();
  EXPECT_EQ(loads.state, GpuLoads::State::on);
  ASSERT_EQ(loads.gpus.size(), 2u);
  EXPECT_FALSE(loads.gpus[0].kernels);
  EXPECT_TRUE(loads.gpus[1].kernels);
  EXPECT_EQ(loads.gpus[1].at, gpu(3));
  EXPECT_TRUE(names(loads.reason, "gpu(0)") && names(loads.reason, "Not Found"));
}

TEST_F(GpuLoadReaderTest, WithoutAUsableLibraryThereIsNone) {
  EXPECT_TRUE(names(refusal("libno-such-nvml.so.1"), "libno-such-nvml.so.1"));
  EXPECT_TRUE(names(refusal("libc.so.6"), "nvmlInit_v2")) << "it is there and lacks the calls";
  EXPECT_TRUE(names(refusal(library, {{gpu(0), "GPU-unknown"}}), "Not Found"));
  refusal(library, {});
  EXPECT_EQ(nvml.opened, nvml.closed);
  const int begun = nvml.opened;
  nvml.failing = FakeNvml::init;
  EXPECT_TRUE(names(refusal(library), "nvmlInit_v2: error 999"));
  EXPECT_EQ(nvml.closed, begun) << "what did not begin does not end";
  nvml.failing = FakeNvml::device;
  EXPECT_TRUE(names(refusal(library), "nvmlDeviceGetHandleByUUID"));
  nvml.failing = FakeNvml::none;
  nvml.talks_nonsense = true;
  EXPECT_TRUE(names(refusal(library), "no handle"));
}

}  // namespace
}  // namespace vma
