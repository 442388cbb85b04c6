// Goal: in a loop whose memory does not fit, transfers are hidden from the second iteration on.
// Method: a case computed by hand. HBM serves 4000 bytes per second, the host 50; copies to and
// from the host take as long as reads. The other GPU is slower than the host.
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace vma {
namespace {

using std::chrono::seconds;

/// Each iteration computes for 12 s with each of three objects of 500 bytes, and reads it twice.
void loop(ListedTrace& trace, std::uint64_t iterations) {
  std::uint32_t task = 0;
  for (std::uint64_t object = 1; object <= 3; ++object) trace.alloc(start, object, 500);
  for (std::uint64_t i = 0; i < iterations; ++i) {
    for (std::uint64_t object = 1; object <= 3; ++object) {
      const std::uint32_t before = task++;
      if (before == 0) {
        trace.task(start, task, seconds(12), {}, 1, on_0);
      } else {
        trace.task(start, task, seconds(12), {before}, 1, on_0);
      }
      trace.access(start, object, 500, on_0).of_task(task);
      trace.access(start, object, 500, on_0).of_task(task);
    }
  }
}

// First touch: the first two objects lie in HBM, where reading 1000 bytes is faster than 12 s. The
// third is at the host, where it takes 20 s. So an iteration takes 44 s, all the time. Who evicts
// what was used longest ago evicts just what comes next.
TEST(RepeatingLoop, FirstTouchWaitsForTheHostInEachIteration) {
  ReplayRig rig;
  rig.gpus = TwoGpus(LinkKind::pcie);
  ListedTrace trace;
  loop(trace, 6);
  EXPECT_NEAR(rig.run(trace, "static").seconds(), 6 * 44, 1e-6);
}

// In the second iteration, the first object comes back after 44 s, and so does the second. Then the
// third is expected, and copied in 10 of the 12 s in which the second is used, while others go the
// opposite way. From then on each iteration takes 36 s.
TEST(RepeatingLoop, FetchesAheadFromTheSecondIterationOn) {
  ReplayRig rig;
  rig.gpus = TwoGpus(LinkKind::pcie);
  rig.options.chunk_bytes = 50;
  ListedTrace trace;
  loop(trace, 6);
  const ReplayReport report = rig.run(trace, "repeating+static:repeat_share=1");
  EXPECT_NEAR(report.seconds(), 44 + 5 * 36, 0.1);
}

}  // namespace
}  // namespace vma
