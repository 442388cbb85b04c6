// Goal: one pointer is valid for kernels of every GPU, for reads and writes, wherever its memory
// moves; no public call changes the caller's current context.
#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/service_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace vma {
namespace {

class RuntimeMachines : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Machines, RuntimeMachines, testing::Values("test-2", "test-4"));

TEST_P(RuntimeMachines, KernelsOfEveryGpuFollowThePointerEverywhere) {
  ServiceRig rig(GetParam());
  constexpr std::uint64_t bytes = 9 * page;
  AllocOptions options;
  options.chunk_bytes = 4 * page;
  void* pointer = rig.runtime().alloc(bytes, gpu(0), options);
  std::uint64_t seed = 0;
  for (const Place from : rig.runtime().places()) {
    for (const Place to : rig.runtime().places()) {
      rig.runtime().migrate(pointer, from);
      for (int writer = 0; writer < rig.gpus(); ++writer) {
        rig.fill_on(writer, pointer, bytes, ++seed);
        rig.runtime().migrate(pointer, to);
        SCOPED_TRACE(testing::Message() << to_string(from) << " to " << to_string(to));
        for (int reader = 0; reader < rig.gpus(); ++reader) {
          ASSERT_EQ(rig.wrong_on(reader, pointer, bytes, seed), 0u);
        }
        ASSERT_EQ(rig.wrong(pointer, bytes, seed), 0u);
      }
    }
  }
  rig.runtime().free(pointer);
  rig.check_invariants();
}

TEST(Runtime, WorkBehindAMoveSeesTheMovedMemory) {
  ServiceRig rig;
  void* pointer = rig.runtime().alloc(page, gpu(0));
  rig.write(pointer, page, 1);
  // Enqueued before the move without waiting, so it must end first.
  rig.runtime().launch(rig.stream(1), spin_kernel(), {}, {}, KernelArguments::of(2'000'000));
  rig.runtime().launch(rig.stream(1), add_kernel(), {}, {},
                       KernelArguments::of(pointer, page / 8, std::uint64_t{100}));
  rig.runtime().migrate(pointer, gpu(1));
  EXPECT_EQ(rig.wrong(pointer, page, 101), 0u);
}

TEST(Runtime, AByteIsAsGoodAsAny) {
  ServiceRig rig;
  void* pointer = rig.runtime().alloc(1, gpu(0));
  EXPECT_EQ(rig.runtime().size(pointer), page);
  const std::byte one{42};
  rig.runtime().write(pointer, {&one, 1});
  rig.runtime().migrate(pointer, 0, 1, host(0));
  std::byte read{0};
  rig.runtime().read(pointer, {&read, 1});
  EXPECT_EQ(read, one);
}

TEST(Runtime, ReadsAndWritesAcrossChunksWhereverTheyLie) {
  ServiceRig rig;
  AllocOptions options;
  options.chunk_bytes = page;
  void* pointer = rig.runtime().alloc(4 * page, gpu(0), options);
  rig.write(pointer, 4 * page, 9);
  rig.runtime().migrate(pointer, page, page, gpu(1));
  rig.runtime().migrate(pointer, 2 * page, page, host(0));
  EXPECT_EQ(rig.wrong(pointer, 4 * page, 9), 0u);
  rig.write(at(pointer, page - 64), 2 * page + 128, 1'000);
  EXPECT_EQ(rig.wrong(at(pointer, page - 64), 2 * page + 128, 1'000), 0u);
  EXPECT_EQ(rig.wrong(pointer, page - 64, 9), 0u) << "what lies before stays";
  EXPECT_EQ(rig.wrong_on(1, at(pointer, page - 64), 2 * page + 128, 1'000), 0u);
  EXPECT_EQ(rig.runtime().where(at(pointer, 3 * page + 5)),
            (std::vector<Extent>{{0, page, gpu(0), 0},
                                 {page, page, gpu(1), 1},
                                 {2 * page, page, host(0), 1},
                                 {3 * page, page, gpu(0), 0}}));
}

TEST(Runtime, RoundsARangeOutToChunks) {
  ServiceRig rig;
  AllocOptions options;
  options.chunk_bytes = 2 * page;
  void* pointer = rig.runtime().alloc(8 * page, gpu(0), options);
  const MigrationReport report = rig.runtime().migrate(pointer, 2 * page + 1, 2 * page, gpu(1));
  EXPECT_EQ(report.bytes_asked, 4 * page);
  EXPECT_EQ(report.chunks_moved, 2);
}

TEST(Runtime, FillsWithZerosWhenAskedEvenWhatWasUsedBefore) {
  ServiceRig rig;
  void* first = rig.runtime().alloc(5 * page, gpu(0));
  rig.write(first, 5 * page, 77);
  rig.runtime().free(first);
  AllocOptions options;
  options.zeroed = true;
  void* second = rig.runtime().alloc(5 * page, gpu(0), options);
  std::vector<std::byte> bytes(5 * page, std::byte{1});
  rig.runtime().read(second, bytes);
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(Runtime, DoesNotMoveWhatIsNotMovable) {
  ServiceRig rig;
  AllocOptions options;
  options.movable = false;
  void* pointer = rig.runtime().alloc(page, gpu(0), options);
  expect_error(ErrorKind::pinned, [&] { rig.runtime().migrate(pointer, gpu(1)); });
  EXPECT_EQ(rig.runtime().where(pointer).front().at, gpu(0));
  rig.runtime().free(pointer);
  void* next = rig.runtime().alloc(page, gpu(0));  // Reused from the cache, but movable.
  EXPECT_EQ(rig.runtime().migrate(next, gpu(1)).chunks_moved, 1);
}

TEST(Runtime, AllocatesOnTheGpuOfTheCurrentContext) {
  ServiceRig rig;
  EXPECT_EQ(rig.runtime().where(rig.runtime().alloc(page)).front().at, gpu(0));
  const ContextHandle second = rig.machine().retain_primary(DeviceId{1});
  rig.machine().set_current_context(second);
  EXPECT_EQ(rig.runtime().where(rig.runtime().alloc(page)).front().at, gpu(1));
  rig.machine().set_current_context({});
  rig.machine().release_primary(DeviceId{1});
}

TEST(Runtime, LeavesTheCurrentContextAsItWas) {
  ServiceRig rig;
  const ContextHandle mine = rig.machine().create_context(DeviceId{1});
  for (const ContextHandle current : {ContextHandle{}, mine}) {
    rig.machine().set_current_context(current);
    const auto same = [&](const char* call) {
      EXPECT_EQ(rig.machine().current_context(), current) << call;
    };
    void* pointer = rig.runtime().alloc(3 * page);
    same("alloc");
    rig.write(pointer, page, 1), same("write");
    rig.wrong(pointer, page, 1), same("read");
    rig.runtime().migrate(pointer, host(0)), same("migrate to the host");
    rig.runtime().host_view(pointer, page), same("host_view");
    rig.runtime().migrate(pointer, gpu(1)), same("migrate");
    rig.runtime().where(pointer), same("where");
    rig.runtime().reserve(gpu(0), page, page), same("reserve");
    rig.runtime().trim(gpu(0)), same("trim");
    rig.fill_on(0, pointer, page, 1), same("launch");
    rig.runtime().destroy_stream(rig.runtime().make_stream(gpu(1))), same("make_stream");
    rig.runtime().stats(), same("stats");
    rig.runtime().free_async(pointer, rig.stream(0)), same("free_async");
    rig.runtime().free(rig.runtime().alloc(page)), same("free");
  }
  rig.machine().set_current_context({});
  rig.machine().destroy_context(mine);
}

TEST(Runtime, HoldsEndInBusyAndTouchNothingWhenAKernelNeverEnds) {
  RuntimeOptions options = without_suspension();
  options.hold_limit = std::chrono::milliseconds(50);
  ServiceRig rig("test-2", options);
  void* pointer = rig.runtime().alloc(3 * page, gpu(0));
  rig.write(pointer, 3 * page, 5);
  rig.runtime().launch(rig.stream(1), spin_kernel(), {}, {},
                       KernelArguments::of(std::uint64_t{3'600'000'000'000}));
  const TimePoint start = rig.machine().clock().now();
  expect_error(ErrorKind::busy, [&] { rig.runtime().migrate(pointer, gpu(1)); });
  EXPECT_LE(rig.machine().clock().now() - start, std::chrono::milliseconds(80));
  EXPECT_EQ(rig.runtime().where(pointer).front().at, gpu(0));
  EXPECT_EQ(rig.wrong(pointer, 3 * page, 5), 0u);
  EXPECT_EQ(rig.wrong_on(0, pointer, 3 * page, 5), 0u);
}

TEST(Runtime, SaysWhatItHas) {
  ServiceRig rig;
  EXPECT_EQ(rig.runtime().places(), (std::vector<Place>{gpu(0), gpu(1), host(0)}));
  EXPECT_EQ(rig.runtime().description(), "simulated test-2");
  const RuntimeStats before = rig.runtime().stats();
  void* pointer = rig.runtime().alloc(2 * page, gpu(1));
  rig.runtime().migrate(pointer, gpu(0));
  const RuntimeStats after = rig.runtime().stats();
  EXPECT_EQ(after.allocations, before.allocations + 1);
  EXPECT_EQ(after.migrations, before.migrations + 1);
  EXPECT_EQ(after.bytes_moved, before.bytes_moved + 2 * page);
  EXPECT_EQ(after.places[0].allocated_bytes, before.places[0].allocated_bytes + 2 * page);
  EXPECT_EQ(after.places[1].cached_bytes, before.places[1].cached_bytes + 2 * page);
  EXPECT_EQ(after.leaked, 0u);
  EXPECT_EQ(after.poisoned, 0u);
}

}  // namespace
}  // namespace vma
