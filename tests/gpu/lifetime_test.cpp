// Goal: CPU views and repeated allocations and frees leak no memory and lose no bytes.

#include "gpu/gpu_test.hpp"

#include <cstdint>

namespace vma {
namespace {

template <typename Machine>
class GpuLifetimes : public GpuTest<Machine> {};
TYPED_TEST_SUITE(GpuLifetimes, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuLifetimes, TheCpuLoadsAndStoresThroughAViewOfHostMemory) {
  GpuRig& rig = this->rig();
  Pattern pattern(rig, gpu(0), 2);
  pattern.fill(1, 500);
  try {
    rig.runtime().host_view(pattern.pointer(), 1);
    ADD_FAILURE() << "a view of device memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  }
  rig.runtime().migrate(pattern.pointer(), host(0));
  {
    const HostView view = rig.runtime().host_view(pattern.pointer(), pattern.size_bytes());
    auto* words = reinterpret_cast<std::uint64_t*>(view.bytes().data());
    const std::uint64_t count = view.bytes().size() / sizeof *words;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < count; ++i) wrong += words[i] != 500 + i;
    EXPECT_EQ(wrong, 0u);
    for (std::uint64_t i = 0; i < count; ++i) words[i] += 1;
    try {
      rig.runtime().migrate(pattern.pointer(), gpu(0));
      ADD_FAILURE() << "moved under a view";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::pinned) << error.what();
    }
    for (std::uint64_t i = 0; i < count; ++i) words[i] -= 1;
  }
  pattern.check();
  pattern.add(0, 11);
  rig.runtime().migrate(pattern.pointer(), gpu(1));
  pattern.check();
}

TYPED_TEST(GpuLifetimes, ComingAndGoingLeavesNothingBehind) {
  GpuRig& rig = this->rig();
  // What the driver's page tables and caches may take, far less than what is allocated and freed.
  const std::uint64_t slack_bytes = rig.simulated() ? 0 : std::uint64_t{64} << 20;
  const auto free_bytes = [&](int gpu) {
    EXPECT_TRUE(rig.all_comes_back());
    for (const Place at : rig.places()) rig.runtime().trim(at);
    rig.comes_to_rest();
    return rig.faults().free_bytes(DeviceId{gpu});
  };
  const auto live = [&](int times) {
    for (int i = 0; i < times; ++i) {
      AllocOptions options;
      options.zeroed = i % 2 == 0;
      void* pointer = rig.runtime().alloc(24 << 20, gpu(i % 2), options);
      rig.runtime().migrate(pointer, gpu((i + 1) % 2));
      if (i % 3 == 0) {
        rig.runtime().free_async(pointer, rig.stream(i % 2));
        rig.runtime().synchronize(rig.stream(i % 2));
      } else {
        rig.runtime().free(pointer);
      }
    }
  };
  live(3);
  std::vector<std::uint64_t> before;
  for (int gpu = 0; gpu < rig.gpus(); ++gpu) before.push_back(free_bytes(gpu));
  live(this->on_gpus_or_simulated(100, 10));
  for (int gpu = 0; gpu < rig.gpus(); ++gpu) {
    EXPECT_GE(free_bytes(gpu) + slack_bytes, before[static_cast<std::size_t>(gpu)]) << gpu;
  }
  EXPECT_EQ(rig.runtime().stats().allocations, 0u);
}

}  // namespace
}  // namespace vma
