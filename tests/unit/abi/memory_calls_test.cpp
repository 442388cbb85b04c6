// Goal: the C calls for memory behave as the C++ ones do, and refuse null pointers.
#include "abi/run_table.hpp"
#include "runtime/runtime_parts.hpp"
#include "unit/abi/abi_rig.hpp"

#include <cstring>

namespace vma {
namespace {

class MemoryCalls : public AbiTest {};

TEST_F(MemoryCalls, MemoryKeepsItsAddressAndItsBytesWhileItMoves) {
  std::vector<unsigned char> written(100'000), now(written.size());
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<unsigned char>(i * 7);
  void* pointer = nullptr;
  ASSERT_EQ(vmart_alloc(written.size(), c_gpu(0), &pointer), VMART_OK);
  ASSERT_EQ(vmart_write(pointer, written.data(), written.size()), VMART_OK);
  EXPECT_EQ(home_of(pointer), "gpu(0)");
  for (const vmart_place to : {c_gpu(1), c_host(0), c_gpu(0)}) {
    ASSERT_EQ(vmart_migrate(pointer, 0, 0, to, nullptr), VMART_OK) << vmart_last_error();
    EXPECT_EQ(home_of(pointer), to_string(to.kind == VMART_GPU ? gpu(to.ordinal) : host(0)));
    std::memset(now.data(), 0, now.size());
    ASSERT_EQ(vmart_read(pointer, now.data(), now.size()), VMART_OK);
    EXPECT_EQ(now, written);
  }
  EXPECT_EQ(vmart_free(pointer), VMART_OK);
  EXPECT_EQ(vmart_free(pointer), VMART_UNKNOWN_POINTER);
  EXPECT_EQ(vmart_free(nullptr), VMART_OK);
}

TEST_F(MemoryCalls, AnyAddressInsideTellsWhereItLiesAndWhatItLiesIn) {
  std::uint64_t* words = filled(3, 1);
  migrate(words, chunk_bytes, chunk_bytes, host(0));
  auto* bytes = reinterpret_cast<char*>(words);
  EXPECT_EQ(home_of(bytes + chunk_bytes - 1), "gpu(0)");
  EXPECT_EQ(home_of(bytes + chunk_bytes), "host(0)");
  EXPECT_EQ(home_of(bytes + 2 * chunk_bytes - 1), "host(0)");
  EXPECT_EQ(home_of(bytes + 2 * chunk_bytes), "gpu(0)");
  void* base = nullptr;
  std::size_t size_bytes = 0;
  EXPECT_EQ(vmart_base(bytes + chunk_bytes + 5, &base, &size_bytes), VMART_OK);
  EXPECT_EQ(base, words);
  EXPECT_EQ(size_bytes, 3 * chunk_bytes);
  EXPECT_EQ(vmart_base(bytes + 3 * chunk_bytes, &base, nullptr), VMART_UNKNOWN_POINTER);
  vma::free(words);
}

TEST_F(MemoryCalls, NoRoomAndNoSuchPlaceAreToldApart) {
  void* pointer = &pointer;
  EXPECT_EQ(vmart_alloc(second_gpu_bytes + 1, c_gpu(1), &pointer), VMART_OUT_OF_MEMORY);
  EXPECT_EQ(vmart_alloc(8, c_gpu(9), &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_alloc(8, {7, 0}, &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_alloc(0, c_gpu(0), &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(pointer, &pointer) << "an error writes no result";
}

TEST_F(MemoryCalls, FreedMemoryIsCachedUntilItIsTrimmed) {
  ASSERT_EQ(vmart_trim(c_gpu(0), nullptr), VMART_OK);
  std::uint64_t bytes = 1;
  EXPECT_EQ(vmart_cached_bytes(c_gpu(0), &bytes), VMART_OK);
  EXPECT_EQ(bytes, 0u);
  void* pointer = nullptr;
  ASSERT_EQ(vmart_alloc(chunk_bytes, c_gpu(0), &pointer), VMART_OK);
  ASSERT_EQ(vmart_free(pointer), VMART_OK);
  EXPECT_EQ(vmart_cached_bytes(c_gpu(0), &bytes), VMART_OK);
  EXPECT_EQ(bytes, chunk_bytes);
  std::uint64_t trimmed = 0;
  EXPECT_EQ(vmart_trim(c_gpu(0), &trimmed), VMART_OK);
  EXPECT_EQ(trimmed, chunk_bytes);
  EXPECT_EQ(vmart_trim(c_gpu(9), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_cached_bytes(c_gpu(9), &bytes), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_held_bytes(c_gpu(9), &bytes), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_held_bytes(c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_cached_bytes(c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
}

/// So that a program sees as much free memory after its first live move as before it.
TEST_F(MemoryCalls, HeldMemoryIsAllThatTheRuntimeTakesFromADevice) {
  const auto taken = [this] {
    std::uint64_t held = 0;
    EXPECT_EQ(vmart_held_bytes(c_gpu(0), &held), VMART_OK);
    return driver().free_bytes(DeviceId{0}) + held;
  };
  attach(stream(0));
  void* const words = vma::alloc(3 * chunk_bytes, gpu(0));
  const std::uint64_t before = taken();
  MigrateOptions live;
  live.mode = Mode::live;
  EXPECT_EQ(migrate_async(words, gpu(1), live).wait().outcome, Outcome::done);
  EXPECT_EQ(taken(), before);
  vma::free(words);
  EXPECT_EQ(taken(), before);
  detach(stream(0));
}

TEST_F(MemoryCalls, CapacitiesAreToldAndRoomNeedsAScheduler) {
  std::uint64_t bytes = 1;
  EXPECT_EQ(vmart_capacity(c_gpu(1), &bytes), VMART_OK);
  EXPECT_EQ(bytes, second_gpu_bytes);
  EXPECT_EQ(vmart_capacity(c_gpu(0), &bytes), VMART_OK);
  EXPECT_EQ(bytes, UINT64_MAX);
  EXPECT_EQ(vmart_capacity(c_gpu(9), &bytes), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_capacity(c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_make_room(c_gpu(9), 1, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_make_room(c_gpu(0), 1, nullptr), VMART_UNSUPPORTED);
}

vmart_alloc_options options() {
  vmart_alloc_options options{};
  options.size_bytes = sizeof options;
  return options;
}

TEST_F(MemoryCalls, OptionsOfAnAllocationAreThoseOfCpp) {
  vmart_alloc_options wanted = options();
  wanted.tag = "c options";
  wanted.site = "main.c:12";
  wanted.chunk_bytes = 2 * chunk_bytes;
  wanted.zeroed = 1;
  wanted.unmovable = 1;
  void* pointer = nullptr;
  ASSERT_EQ(vmart_alloc_with(4 * chunk_bytes, c_gpu(0), &wanted, &pointer), VMART_OK);
  const AllocationInfo info = runtime().allocation(pointer);
  EXPECT_EQ(info.tag, "c options");
  EXPECT_EQ(parts_of(runtime()).machinery->memory.require(pointer, "test")->site, "main.c:12");
  EXPECT_EQ(info.chunk_bytes, 2 * chunk_bytes);
  std::vector<unsigned char> bytes(4 * chunk_bytes, 1);
  ASSERT_EQ(vmart_read(pointer, bytes.data(), bytes.size()), VMART_OK);
  EXPECT_EQ(bytes, std::vector<unsigned char>(bytes.size(), 0));
  EXPECT_EQ(vmart_migrate(pointer, 0, 0, c_gpu(1), nullptr), VMART_PINNED);
  EXPECT_EQ(vmart_free(pointer), VMART_OK);

  ASSERT_EQ(vmart_alloc_with(8, c_gpu(0), nullptr, &pointer), VMART_OK);
  EXPECT_EQ(runtime().allocation(pointer).tag, "");
  EXPECT_EQ(vmart_free(pointer), VMART_OK);

  wanted = options();
  wanted.shared_atomics = 1;
  EXPECT_EQ(vmart_alloc_with(8, c_host(0), &wanted, &pointer), VMART_UNSUPPORTED);

  wanted = options();
  wanted.spill = 1;  // Without a scheduler.
  EXPECT_EQ(vmart_alloc_with(second_gpu_bytes + 1, c_gpu(1), &wanted, &pointer),
            VMART_OUT_OF_MEMORY);

  wanted = options();
  wanted.pool = 1;
  ASSERT_EQ(vmart_alloc_with(8, c_gpu(0), &wanted, &pointer), VMART_OK);
  vmart_pool* pool = nullptr;
  ASSERT_EQ(vmart_pool_default(c_gpu(0), &pool), VMART_OK);
  vmart_pool_stats stats{};
  stats.size_bytes = sizeof stats;
  ASSERT_EQ(vmart_pool_stats_get(pool, &stats), VMART_OK);
  EXPECT_GT(stats.used_bytes, 0u);
  vmart_pool_release(pool);
  EXPECT_EQ(vmart_free(pointer), VMART_OK);
}

TEST_F(MemoryCalls, TheCpuMayTouchMemoryInHbmIfItIsAllocatedSo) {
  vmart_alloc_options wanted = options();
  wanted.cpu_access = VMART_CPU_FAULT;
  void* pointer = nullptr;
  ASSERT_EQ(vmart_alloc_with(chunk_bytes, c_gpu(0), &wanted, &pointer), VMART_OK);
  *static_cast<volatile unsigned char*>(pointer) = 7;
  EXPECT_EQ(home_of(pointer), "host(0)");
  unsigned char byte = 0;
  ASSERT_EQ(vmart_read(pointer, &byte, 1), VMART_OK);
  EXPECT_EQ(byte, 7);
  EXPECT_EQ(vmart_free(pointer), VMART_OK);
}

TEST_F(MemoryCalls, OptionsOfAnotherVersionAreRefusedUnlessTheyMeanNothing) {
  struct Later {
    vmart_alloc_options known;
    std::uint64_t more;
  } later{options(), 0};
  later.known.size_bytes = sizeof later;
  void* pointer = nullptr;
  ASSERT_EQ(vmart_alloc_with(8, c_gpu(0), &later.known, &pointer), VMART_OK);
  EXPECT_EQ(vmart_free(pointer), VMART_OK);
  later.more = 1;
  EXPECT_EQ(vmart_alloc_with(8, c_gpu(0), &later.known, &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_STREQ(vmart_last_error(),
               "vmart_alloc_with: invalid_argument: options contain a value that this version does "
               "not know");
  vmart_alloc_options wrong = options();
  wrong.size_bytes = 8;
  EXPECT_EQ(vmart_alloc_with(8, c_gpu(0), &wrong, &pointer), VMART_INVALID_ARGUMENT);
  wrong = options();
  wrong.cpu_access = VMART_CPU_FAULT + 1;
  EXPECT_EQ(vmart_alloc_with(8, c_gpu(0), &wrong, &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_STREQ(vmart_last_error(), "vmart_alloc_with: invalid_argument: options->cpu_access is 2");
  EXPECT_EQ(vmart_alloc_with(8, c_gpu(0), nullptr, nullptr), VMART_INVALID_ARGUMENT);
}

TEST_F(MemoryCalls, AFreeBehindAStreamNeedsNoWait) {
  std::uint64_t* words = filled(1, 1);
  EXPECT_EQ(vmart_free_async(words, stream(0)), VMART_OK);
  EXPECT_EQ(vmart_free_async(words, stream(0)), VMART_UNKNOWN_POINTER);
  synchronize(stream(0));
}

TEST_F(MemoryCalls, APinKeepsAnAllocationWhereItIs) {
  std::uint64_t* words = filled(2, 1);
  vmart_pin* pin = nullptr;
  ASSERT_EQ(vmart_pin_create(words + 5, &pin), VMART_OK);
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(1), nullptr), VMART_PINNED);
  vmart_pin_release(pin);
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(1), nullptr), VMART_OK);
  ASSERT_EQ(vmart_note_export(words + 5), VMART_OK);
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(0), nullptr), VMART_PINNED);
  vmart_pin_release(nullptr);
  vma::free(words);
}

TEST_F(MemoryCalls, NullIsRefusedByName) {
  std::uint64_t* words = filled(1, 1);
  char byte = 0;
  EXPECT_EQ(vmart_alloc(8, c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_STREQ(vmart_last_error(), "vmart_alloc: invalid_argument: out is null");
  EXPECT_EQ(vmart_read(nullptr, &byte, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_read(words, nullptr, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_write(nullptr, &byte, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_write(words, nullptr, 1), VMART_INVALID_ARGUMENT);
  vmart_place at{};
  EXPECT_EQ(vmart_where(nullptr, &at), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_where(words, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_base(nullptr, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  vmart_pin* pin = nullptr;
  EXPECT_EQ(vmart_pin_create(nullptr, &pin), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pin_create(words, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_note_export(nullptr), VMART_INVALID_ARGUMENT);
  vma::free(words);
}

}  // namespace
}  // namespace vma
