// Goal: queries are answered at once, whatever the library does; the library is asked only while
// somebody is interested. Method: a fake library and a clock of the test.
#include "telemetry/gpu_monitor.hpp"

#include "support/stepped_executor.hpp"
#include "unit/telemetry/nvml_rig.hpp"

#include <cstdlib>
#include <memory>
#include <optional>

namespace vma {
namespace {

using State = GpuLoads::State;

class GpuMonitorTest : public NvmlTest {
 protected:
  void open(const std::string& file = library, const std::string& why_not = "",
            std::chrono::nanoseconds patience = std::chrono::minutes(5)) {
    monitor.emplace(executor, clock, std::vector<NamedGpu>{{gpu(0), "GPU-a"}}, file, why_not,
                    patience);
  }
  /// Queries until the state is no longer `starting`.
  GpuLoads settled() {
    GpuLoads loads;
    await([&] {
      loads = monitor->loads();
      return loads.state != State::starting;
    });
    return loads;
  }

  /// The thread is inside the library, which does not return.
  void hang(std::chrono::nanoseconds patience) {
    nvml.hangs = true;
    open(library, "", patience);
    monitor->loads();
    await([this] { return nvml.samples > 0; });
  }

  ThreadedExecutor executor;
  std::shared_ptr<TestClock> clock = std::make_shared<TestClock>();
  std::optional<GpuMonitor> monitor;
};

TEST_F(GpuMonitorTest, AnswersAtOnceAndSamplesOnceAsked) {
  open();
  EXPECT_EQ(nvml.opened, 0) << "nobody asked";
  const GpuLoads first = monitor->loads();
  EXPECT_EQ(first.state, State::starting);
  EXPECT_TRUE(first.gpus.empty());
  EXPECT_LT(first.age.count(), 0);
  const GpuLoads loads = settled();
  EXPECT_EQ(loads.state, State::on);
  EXPECT_GE(loads.age.count(), 0);
  EXPECT_LE(loads.age, GpuMonitor::stale);
  EXPECT_DOUBLE_EQ(loads.gpus.at(0).kernels.value(), 0.75);
  monitor.reset();
  await_end();
  EXPECT_EQ(nvml.opened, 1);
}

TEST_F(GpuMonitorTest, NeverAsksWhereNobodyDoes) {
  open();
  monitor.reset();
  EXPECT_EQ(nvml.opened, 0);
}

TEST_F(GpuMonitorTest, RestsWhenNobodyLooksAnyMoreUntilSomebodyAsksAgain) {
  open();
  monitor->loads();
  const auto rests = [](const TestClock& watch) {
    await([&] { return watch.now() >= GpuMonitor::watched; });
  };
  rests(*clock);
  // Time passes only while a thread waits between samples. If the first monitor still took samples,
  // they would show within the other one's minute.
  const auto other_clock = std::make_shared<TestClock>();
  {
    GpuMonitor other(executor, other_clock, {{gpu(0), "GPU-a"}}, library);
    other.loads();
    rests(*other_clock);
  }
  EXPECT_EQ(clock->now(), GpuMonitor::watched);
  EXPECT_EQ(nvml.samples, 2 * (GpuMonitor::watched / GpuMonitor::period)) << "one a second";
  clock->advance(GpuMonitor::stale);
  EXPECT_EQ(monitor->loads().state, State::starting) << "the last sample is too old to show";
  EXPECT_EQ(settled().state, State::on);
}

TEST_F(GpuMonitorTest, IsOffWithTheReasonWhereTheLibraryIsNotToBeHad) {
  testing::internal::CaptureStderr();
  open("libno-such-nvml.so.1");
  const GpuLoads absent = settled();
  EXPECT_EQ(absent.state, State::off);
  EXPECT_NE(absent.reason.find("libno-such-nvml.so.1"), std::string::npos) << absent.reason;
  open("", "it is switched off");
  EXPECT_EQ(monitor->loads().state, State::off);
  EXPECT_EQ(monitor->loads().reason, "it is switched off");
  nvml.failing = FakeNvml::init;
  open();
  EXPECT_NE(settled().reason.find("nvmlInit_v2"), std::string::npos);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "quietly";
}

TEST_F(GpuMonitorTest, GoesOffWhereEveryCallFailsAndStaysOff) {
  nvml.failing = FakeNvml::utilisation | FakeNvml::memory | FakeNvml::fields;
  open();
  const GpuLoads loads = settled();
  EXPECT_EQ(loads.state, State::off);
  EXPECT_NE(loads.reason.find("Not Supported"), std::string::npos) << loads.reason;
  nvml.failing = FakeNvml::none;
  EXPECT_EQ(monitor->loads().state, State::off);
  monitor.reset();
  await_end();
  EXPECT_EQ(nvml.opened, 1);
  EXPECT_EQ(nvml.samples, 1);
}

TEST_F(GpuMonitorTest, ALibraryThatHangsKeepsNobodyWaiting) {
  hang(std::chrono::milliseconds(1));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(monitor->loads().state, State::starting);
  monitor.reset();  // Returns although the thread does not.
  EXPECT_EQ(nvml.closed, 0);
  nvml.hangs = false;
  await_end();  // The thread owns everything that it uses.
}

TEST_F(GpuMonitorTest, IsOffOnASteppedMachine) {
  SteppedExecutor stepped;
  stepped.run([&] {
    GpuMonitor of_stepped(stepped, clock, {{gpu(0), "GPU-a"}}, library);
    const GpuLoads loads = of_stepped.loads();
    EXPECT_EQ(loads.state, State::off);
    EXPECT_NE(loads.reason.find("stepped"), std::string::npos) << loads.reason;
  });
  EXPECT_EQ(nvml.opened, 0);
}

using GpuMonitorDeathTest = GpuMonitorTest;

TEST_F(GpuMonitorDeathTest, HasLeftTheLibraryBeforeItsStaticsGo) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        nvml.must_be_closed_at_exit = true;
        hang(std::chrono::minutes(5));
        static FakeNvml& library_at_exit = nvml;
        std::atexit([] { library_at_exit.hangs = false; });  // Runs before the other exit handlers.
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(GpuMonitorDeathTest, ALibraryThatHangsDoesNotKeepTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        hang(std::chrono::milliseconds(1));
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace vma
