// Goal: no failing driver call loses a byte; the failed request works when it is repeated, and so
// does everything later. Method: fails each driver call of one allocation's life in turn, in one
// runtime that stays open.

#include "gpu/gpu_test.hpp"

#include <functional>
#include <optional>

namespace vma {
namespace {

template <typename Machine>
class GpuFaults : public GpuTest<Machine> {
 protected:
  /// Allocates, writes, moves, frees. False if call number `number` never came.
  bool live_with_failure(int number) {
    GpuRig& rig = this->rig();
    rig.faults().fail_calls({number});
    bool fired = false;
    const auto step = [&](const std::function<void()>& body) {
      try {
        body();
      } catch (const Error& error) {
        EXPECT_GT(rig.faults().fired(), 0) << "failed by itself: " << error.what();
        fired = true;
        rig.faults().fail_calls({});
        body();
      }
      // A background call may have failed without an error to the caller.
      fired = fired || rig.faults().fired() > 0;
    };
    {
      std::optional<Pattern> pattern;
      step([&] {
        if (!pattern) pattern.emplace(rig, gpu(0), 2);
      });
      step([&] { pattern->write(1'000u + static_cast<unsigned>(number)); });
      step([&] { rig.runtime().migrate(pattern->pointer(), gpu(1)); });
      step([&] { rig.runtime().migrate(pattern->pointer(), host(0)); });
      step([&] { rig.runtime().migrate(pattern->pointer(), 0, 1, gpu(0)); });
      rig.faults().fail_calls({});
      pattern->check();
      pattern->add(1, 4);
      pattern->check();
    }
    rig.comes_to_rest();
    return fired;
  }

  /// The same for the free alone.
  bool free_with_failure(int number) {
    GpuRig& rig = this->rig();
    void* pointer = rig.runtime().alloc(gpu_chunk_bytes, gpu(1));
    rig.faults().fail_calls({number});
    bool threw = false;
    try {
      rig.runtime().free(pointer);
    } catch (const Error& error) {
      threw = true;
      EXPECT_GT(rig.faults().fired(), 0) << error.what();
    }
    const bool fired = rig.faults().fired() > 0;
    rig.faults().fail_calls({});
    if (threw) rig.runtime().free(pointer);  // A free that threw has freed nothing.
    rig.comes_to_rest();
    return fired;
  }
};
TYPED_TEST_SUITE(GpuFaults, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuFaults, AnySingleFailureLosesNothing) {
  int number = 0;
  while (this->live_with_failure(number) && !testing::Test::HasFailure()) ++number;
  std::printf("VMART_COUNT gpu_faults=%d\n", number);
  EXPECT_GT(number, 30) << "few calls failed";
  int frees = 0;
  while (this->free_with_failure(frees) && !testing::Test::HasFailure()) ++frees;
  EXPECT_GT(frees, 0);
  this->rig().forgive_leaks();  // Leaks by failed releases are counted and expected.
  EXPECT_EQ(this->runtime().stats().poisoned, 0u);
}

}  // namespace
}  // namespace vma
