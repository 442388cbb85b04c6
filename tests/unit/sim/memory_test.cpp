// Goal: simulated memory consists of real bytes with a GPU's access rights. Method: calls of one
// thread; bytes read back by copy engine, kernels and CPU. The contract suite covers facts shared
// with real drivers; this file covers what only a simulated machine can be asked.
#include "driver/native_codes.hpp"
#include "base/units.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace vma {
namespace {

TEST(SimMemory, OneChunkAtTwoAddressesShowsTheSameBytes) {
  SimRig rig;
  const auto first = rig.allocate(gpu(0), 2 * rig.page());
  const Address second = rig.driver().reserve(2 * rig.page(), 0);
  rig.driver().map(second, 2 * rig.page(), first.chunk);
  rig.grant_all(second, 2 * rig.page());
  rig.set_word(0, first.address + rig.page(), 77);
  EXPECT_EQ(rig.word_at(1, second + rig.page()), 77u);
  rig.driver().unmap(second, 2 * rig.page());
  rig.driver().unreserve(second, 2 * rig.page());
  rig.give_back(first);
}

TEST(SimMemory, AMoveUnderAStablePointerKeepsTheAddressAndShowsTheNewBytes) {
  SimRig rig;
  auto memory = rig.allocate(gpu(0), rig.page());
  const auto staging = rig.allocate(gpu(1), rig.page());
  rig.set_word(0, memory.address, 1);
  rig.set_word(0, staging.address, 2);
  const std::uint64_t before = rig.driver().pointer_info(memory.address).buffer_id;
  rig.driver().unmap(memory.address, rig.page());
  rig.driver().map(memory.address, rig.page(), staging.chunk);
  EXPECT_EQ(rig.driver().access(memory.address, gpu(0)), Access::none);
  rig.grant_all(memory.address, rig.page());
  EXPECT_EQ(rig.word_at(0, memory.address), 2u);
  EXPECT_EQ(rig.driver().pointer_info(memory.address).at, gpu(1));
  EXPECT_NE(rig.driver().pointer_info(memory.address).buffer_id, before);
}

TEST(SimMemory, BytesLiveOnInAMappingAfterTheReleaseOfTheHandle) {
  SimRig rig;
  const auto memory = rig.allocate(gpu(0), rig.page());
  rig.set_word(0, memory.address, 5);
  const std::uint64_t taken = rig.driver().created_bytes();
  rig.driver().release(memory.chunk);
  EXPECT_EQ(rig.driver().created_bytes(), taken);
  EXPECT_EQ(rig.word_at(0, memory.address), 5u);
  const ChunkHandle again = rig.driver().retain_handle(memory.address);
  rig.driver().release(again);
  EXPECT_EQ(native_of([&] { rig.driver().release(again); }), native_invalid_value);
  rig.driver().unmap(memory.address, rig.page());
  EXPECT_LT(rig.driver().created_bytes(), taken);
}

TEST(SimMemory, FreshMemoryOfATestMachineIsJunkAndOfAnH200IsZero) {
  SimRig junk;
  const auto first = junk.allocate(gpu(0), junk.page());
  EXPECT_NE(junk.word_at(0, first.address), 0u);
  SimRig zero("h200x2");
  const auto second = zero.allocate(gpu(0), zero.page());
  EXPECT_EQ(zero.word_at(0, second.address), 0u);
}

TEST(SimMemory, TheCpuReachesHostMemoryOnlyWhileItIsGranted) {
  SimRig rig;
  const auto memory = rig.allocate(host(0), 2 * rig.page());
  EXPECT_DEATH({ *static_cast<volatile std::uint64_t*>(memory.words()) = 1; }, "");
  const Accessor cpu{host(0), Access::read_write};
  rig.driver().grant(memory.address, memory.size_bytes, {&cpu, 1});
  memory.words()[0] = 11;
  EXPECT_EQ(rig.word_at(0, memory.address), 11u);
  rig.launch(rig.stream(1),
             [&](DeviceView& view) { view.store(memory.words() + 1, std::uint64_t{12}); });
  rig.finish(rig.stream(1));
  EXPECT_EQ(memory.words()[1], 12u);
  const Accessor read_only{host(0), Access::read};
  rig.driver().grant(memory.address, memory.size_bytes, {&read_only, 1});
  EXPECT_EQ(memory.words()[1], 12u);
  EXPECT_DEATH({ *static_cast<volatile std::uint64_t*>(memory.words()) = 1; }, "");
  const Accessor none{host(0), Access::none};
  rig.driver().grant(memory.address, memory.size_bytes, {&none, 1});
  EXPECT_DEATH(
      { [[maybe_unused]] auto word = *static_cast<volatile std::uint64_t*>(memory.words()); }, "");
}

TEST(SimMemory, ACpuTouchOfDeviceMemoryIsASegmentationFault) {
  SimRig rig;
  const auto memory = rig.allocate(gpu(0), rig.page());
  // Killed by the signal, or ended by a sanitizer that names it.
  EXPECT_DEATH(
      { [[maybe_unused]] auto word = *static_cast<volatile std::uint64_t*>(memory.words()); }, "");
}

TEST(SimMemory, ACreateBeyondTheGpusMemoryIsRefusedAndTakesNothing) {
  SimRig rig;
  EXPECT_EQ(native_of([&] { rig.driver().create(gpu(0), 65 * MiB); }), native_out_of_memory);
  const ChunkHandle fits = rig.driver().create(gpu(0), 64 * MiB);
  EXPECT_EQ(rig.driver().free_bytes(DeviceId{0}), 0u);
  EXPECT_EQ(native_of([&] { rig.driver().create(gpu(0), rig.page()); }), native_out_of_memory);
  rig.driver().release(fits);
  EXPECT_EQ(rig.driver().free_bytes(DeviceId{0}), 64 * MiB);
}

TEST(SimMemory, BytesBeyondTheBudgetAreRefusedByName) {
  SimOptions options;
  options.host_budget_bytes = 1 * MiB;
  SimRig rig("h200x1", options);
  const std::string what = error_of([&] { rig.driver().create(gpu(0), 2 * MiB); });
  EXPECT_NE(what.find("VMART_SIM_BYTES"), std::string::npos) << what;
  EXPECT_NE(what.find("out_of_memory"), std::string::npos) << what;
  EXPECT_EQ(rig.driver().free_bytes(DeviceId{0}), rig.driver().machine().gpus[0].memory_bytes -
                                                      rig.driver().machine().costs.context_bytes);
}

TEST(SimMemory, GpusThatCannotReachEachOtherCannotBeGranted) {
  SimRig rig("test-islands");
  const Address begin = rig.driver().reserve(rig.page(), 0);
  const ChunkHandle chunk = rig.driver().create(gpu(0), rig.page());
  rig.driver().map(begin, rig.page(), chunk);
  const Accessor mate{gpu(1)}, stranger{gpu(2)};
  rig.driver().grant(begin, rig.page(), {&mate, 1});
  EXPECT_NE(native_of([&] { rig.driver().grant(begin, rig.page(), {&stranger, 1}); }), 0);
  EXPECT_EQ(rig.driver().access(begin, gpu(2)), Access::none);
  EXPECT_FALSE(rig.driver().can_access_peer(DeviceId{0}, DeviceId{2}));
}

TEST(SimMemory, ARefusedGrantOverSeveralMappingsChangesNone) {
  SimRig rig;
  const Address begin = rig.driver().reserve(2 * rig.page(), 0);
  const ChunkHandle on_host = rig.driver().create(host(0), rig.page());
  const ChunkHandle on_gpu = rig.driver().create(gpu(0), rig.page());
  rig.driver().map(begin, rig.page(), on_host);
  rig.driver().map(begin + rig.page(), rig.page(), on_gpu);
  const Accessor cpu{host(0)};
  EXPECT_EQ(native_of([&] {
              rig.driver().grant(begin, 2 * rig.page(), {&cpu, 1});
            }),
            native_not_supported);
  EXPECT_EQ(rig.driver().access(begin, host(0)), Access::none);
}

TEST(SimMemory, WhatIsNotGivenBackIsListed) {
  SimDriver driver(SimRig().driver().machine());
  EXPECT_TRUE(driver.leaks().empty());
  const Address begin = driver.reserve(4096, 0);
  const ChunkHandle chunk = driver.create(gpu(0), 4096);
  driver.map(begin, 4096, chunk);
  const ContextHandle context = driver.retain_primary(DeviceId{0});
  const BoundStream stream = driver.create_stream(context, StreamKind::blocking);
  const EventHandle event = driver.create_event(context);
  EXPECT_EQ(driver.leaks().size(), 6u);
  driver.destroy_event(event);
  driver.destroy_stream(stream);
  driver.release_primary(DeviceId{0});
  driver.unmap(begin, 4096);
  driver.release(chunk);
  driver.unreserve(begin, 4096);
  EXPECT_TRUE(driver.leaks().empty());
}

TEST(SimMemory, ManyThreadsMapAndUnmapAtOnce) {
  SimRig rig;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&rig, t] {
      for (int round = 0; round < 50; ++round) {
        const auto memory = rig.allocate(t % 2 == 0 ? gpu(t / 2) : host(0), 4 * 4096);
        rig.give_back(memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rig.driver().created_bytes(), 0u);
}

}  // namespace
}  // namespace vma
