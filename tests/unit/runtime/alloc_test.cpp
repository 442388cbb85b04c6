// Goal: `alloc`, `free`, `read`, `write` and `where` keep their promises and refuse bad input with
// clear errors.

#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace vma {
namespace {

TEST(Alloc, AnySizeFromOneByteIsUsableOnEveryGpu) {
  RuntimeRig rig;
  for (const std::uint64_t bytes : {1ul, 8ul, 4095ul, 4096ul, 4097ul, 65'536ul, 1'000'000ul}) {
    for (const Place at : rig.runtime().places()) {
      auto* words = static_cast<std::uint64_t*>(rig.runtime().alloc(bytes, at));
      const std::uint64_t size = rig.runtime().size(words);
      EXPECT_GE(size, bytes);
      EXPECT_EQ(rig.place(words), at);
      rig.fill_by(1, words, size / 8, bytes);
      EXPECT_EQ(rig.wrong_for(0, words, size / 8, bytes), 0u);
      EXPECT_EQ(rig.wrong(words, size / 8, bytes), 0u);
      rig.runtime().free(words);
    }
  }
  rig.check_invariants();
}

TEST(Alloc, BadInputIsNamed) {
  RuntimeRig rig;
  Runtime& runtime = rig.runtime();
  EXPECT_EQ(kind_of_error([&] { runtime.alloc(0); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { runtime.alloc(SIZE_MAX); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { runtime.alloc(1, gpu(2)); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { runtime.alloc(1, gpu(-1)); }), ErrorKind::invalid_argument);
  EXPECT_NE(error_text([&] { runtime.alloc(1, host(7)); }).find("host(7)"), std::string::npos);
  AllocOptions options;
  options.chunk_bytes = 1 << 30;
  EXPECT_NE(error_text([&] { runtime.alloc(1, gpu(0), options); }).find("1073741824"),
            std::string::npos);
}

TEST(Alloc, AReaderThatCannotReachIsRefusedAndOthersAreLeftOut) {
  RuntimeRig rig("test-islands");
  const std::vector<Place> readers{gpu(0), gpu(2)};
  const std::string text = error_text([&] { rig.runtime().alloc(1, gpu(0), readers); });
  EXPECT_NE(text.find("unreachable"), std::string::npos) << text;
  EXPECT_NE(text.find("gpu(2)"), std::string::npos) << text;
  EXPECT_EQ(kind_of_error([&] { rig.runtime().alloc(1, gpu(0), std::vector{host(0)}); }),
            ErrorKind::unreachable);
  std::uint64_t* words = rig.alloc(8, gpu(0));
  EXPECT_EQ(rig.machine().access(address_of(words), gpu(1)), Access::read_write);
  EXPECT_EQ(rig.machine().access(address_of(words), gpu(2)), Access::none);
}

TEST(Alloc, ZeroedMemoryIsZero) {
  RuntimeRig rig;  // Fresh memory of this machine is filled with junk.
  AllocOptions options;
  options.zeroed = true;
  for (const Place at : rig.runtime().places()) {
    for (int i = 0; i < 3; ++i) {
      auto* words = static_cast<std::uint64_t*>(rig.runtime().alloc(100'000, at, options));
      std::vector<std::uint64_t> bytes(rig.runtime().size(words) / 8, 1);
      rig.runtime().read(words, std::as_writable_bytes(std::span(bytes)));
      EXPECT_EQ(bytes, std::vector<std::uint64_t>(bytes.size(), 0));
      rig.fill_by(0, words, bytes.size(), 5);
      rig.runtime().free(words);
    }
  }
}

TEST(Alloc, TheCurrentContextIsTheHint) {
  RuntimeRig rig;
  void* first = rig.runtime().alloc(1);
  EXPECT_EQ(rig.place(first), gpu(0));
  rig.machine().set_current_context(rig.machine().retain_primary(DeviceId{1}));
  void* second = rig.runtime().alloc(1);
  EXPECT_EQ(rig.place(second), gpu(1));
  rig.machine().set_current_context({});
}

TEST(Alloc, EveryCallLeavesTheCurrentContext) {
  RuntimeRig rig;
  const ContextHandle own = rig.machine().create_context(DeviceId{1});
  rig.machine().set_current_context(own);
  const auto same = [&](const char* call) {
    EXPECT_EQ(rig.machine().current_context(), own) << call;
  };
  std::uint64_t* words = rig.alloc(20'000, gpu(0));
  same("alloc");
  rig.write(words, 100, 1);
  same("write");
  rig.wrong(words, 100, 1);
  same("read");
  rig.runtime().migrate(words, gpu(1));
  same("migrate");
  rig.runtime().where(words);
  rig.runtime().reserve(gpu(0), 8192, 8192);
  rig.runtime().trim(gpu(0));
  same("trim");
  rig.runtime().migrate(words, host(0));
  { const HostView view = rig.runtime().host_view(words, 8); }
  same("host_view");
  const Stream stream = rig.runtime().make_stream(gpu(0));
  rig.runtime().synchronize(stream);
  rig.runtime().destroy_stream(stream);
  same("streams");
  rig.runtime().free_async(rig.alloc(8, gpu(0)), rig.stream(0));
  rig.runtime().free(words);
  same("free");
  rig.runtime().shutdown();
  same("shutdown");
  rig.machine().set_current_context({});
}

TEST(Alloc, PointersThatAreNoneAreRefused) {
  RuntimeRig rig, other;
  Runtime& runtime = rig.runtime();
  std::uint64_t* words = rig.alloc(20'000, gpu(0));
  std::uint64_t* foreign = other.alloc(8, gpu(0));
  std::uint64_t local = 0;
  std::byte byte{};
  for (void* bad : {static_cast<void*>(&local), static_cast<void*>(foreign),
                    reinterpret_cast<void*>(UINT64_MAX), reinterpret_cast<void*>(8)}) {
    EXPECT_EQ(kind_of_error([&] { runtime.free(bad); }), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind_of_error([&] { runtime.free_async(bad, rig.stream(0)); }),
              ErrorKind::unknown_pointer);
    EXPECT_EQ(kind_of_error([&] { runtime.migrate(bad, gpu(1)); }), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind_of_error([&] { runtime.where(bad); }), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind_of_error([&] { runtime.size(bad); }), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind_of_error([&] { runtime.read(bad, {&byte, 1}); }), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind_of_error([&] { runtime.write(bad, {&byte, 1}); }), ErrorKind::unknown_pointer);
    EXPECT_EQ(kind_of_error([&] { static_cast<void>(runtime.host_view(bad, 1)); }),
              ErrorKind::unknown_pointer);
  }
  EXPECT_NE(error_text([&] { runtime.migrate(&local, gpu(1)); }).find("vma::migrate"),
            std::string::npos);
  runtime.free(nullptr);
  runtime.free_async(nullptr, rig.stream(0));
  EXPECT_EQ(kind_of_error([&] { runtime.migrate(nullptr, gpu(1)); }), ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { runtime.where(nullptr); }), ErrorKind::unknown_pointer);
  // An address inside is fine for all calls but those that end the allocation.
  EXPECT_EQ(kind_of_error([&] { runtime.free(words + 1); }), ErrorKind::unknown_pointer);
  EXPECT_EQ(runtime.migrate(words + 1, gpu(1)).bytes_moved, runtime.size(words));
  EXPECT_EQ(runtime.size(words + 1), runtime.size(words));
  runtime.free(words);
  EXPECT_EQ(kind_of_error([&] { runtime.free(words); }), ErrorKind::unknown_pointer);
}

TEST(Alloc, ReadAndWriteCrossChunksAndStopAtTheEnd) {
  RuntimeRig rig;
  const std::uint64_t count = 5'000;
  std::uint64_t* words = rig.alloc(count * 8, gpu(0), 4096);
  rig.write(words, count, 10);
  rig.runtime().migrate(words, 8192, 8192, host(0));
  rig.runtime().migrate(words, 20'480, 1, gpu(1));
  ASSERT_EQ(rig.runtime().where(words).size(), 5u);
  EXPECT_EQ(rig.wrong(words, count, 10), 0u);
  EXPECT_EQ(rig.wrong(words + 1'000, 2'000, 1'010), 0u);
  rig.write(words + 777, 3'000, 9);
  EXPECT_EQ(rig.wrong_for(1, words + 777, 3'000, 9), 0u);
  EXPECT_EQ(rig.wrong(words, 777, 10), 0u);
  std::vector<std::byte> bytes(rig.runtime().size(words) + 1);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().read(words, bytes); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().write(words + 1, std::span(bytes).subspan(1)); }),
            ErrorKind::invalid_argument);
  rig.runtime().read(words, {});
}

TEST(Alloc, CapacitiesAreKeptAndNamed) {
  RuntimeOptions options;
  options.capacity_bytes[gpu(0)] = 100'000;
  options.pressure_limit = std::chrono::milliseconds(0);
  RuntimeRig rig("test-2", options);
  std::uint64_t* words = rig.alloc(40'960, gpu(0));
  const std::string text = error_text([&] { rig.alloc(65'536, gpu(0)); });
  EXPECT_NE(text.find("out_of_memory"), std::string::npos) << text;
  EXPECT_NE(text.find("97.7 KiB"), std::string::npos) << text;
  EXPECT_NE(text.find("gpu(0)"), std::string::npos) << text;
  rig.check_invariants();
  rig.runtime().free(words);
  rig.check_invariants();
  // The cache holds freed chunks of other sizes; it is given up before the allocation fails.
  std::uint64_t* larger = rig.alloc(81'920, gpu(0), 81'920);
  EXPECT_EQ(rig.place(larger), gpu(0));
  rig.check_invariants();
}

TEST(Alloc, AFullGpuIsOutOfMemoryAndRecovers) {
  RuntimeRig rig;
  std::vector<std::uint64_t*> all;
  const auto fill = [&] {
    for (int i = 0; i < 1'000; ++i) all.push_back(rig.alloc(1 << 20, gpu(0), 1 << 19));
  };
  EXPECT_EQ(kind_of_error(fill), ErrorKind::out_of_memory);
  EXPECT_GT(all.size(), 50u);
  rig.check_invariants();
  for (std::uint64_t* words : all) rig.runtime().free(words);
  EXPECT_GT(rig.runtime().trim(gpu(0)), 0u);
  rig.check_invariants();
  EXPECT_EQ(rig.runtime().trim(gpu(0)), 0u);
}

TEST(Alloc, ReserveFillsTheCacheAndTrimEmptiesIt) {
  RuntimeRig rig;
  rig.runtime().reserve(host(0), 10 * 8192, 8192);
  const auto cached = [&] { return rig.runtime().stats().places.at(2).cached_bytes; };
  EXPECT_EQ(cached(), 10u * 8192);
  rig.runtime().reserve(host(0), 10 * 8192, 8192);
  EXPECT_EQ(cached(), 10u * 8192);
  EXPECT_EQ(rig.runtime().trim(host(0)), 10u * 8192);
  EXPECT_EQ(cached(), 0u);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().reserve(gpu(9), 1); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().reserve(gpu(0), 1 << 30); }),
            ErrorKind::out_of_memory);
  EXPECT_EQ(kind_of_error([&] { static_cast<void>(rig.runtime().trim(gpu(9))); }),
            ErrorKind::invalid_argument);
  rig.check_invariants();
}

TEST(Alloc, StreamsThatAreNoneAreRefused) {
  RuntimeRig rig;
  EXPECT_EQ(kind_of_error([&] { rig.runtime().make_stream(host(0)); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().make_stream(gpu(5)); }), ErrorKind::invalid_argument);
  const Stream stream = rig.runtime().make_stream(gpu(0));
  rig.runtime().destroy_stream(stream);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().destroy_stream(stream); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().synchronize(stream); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().destroy_stream(nullptr); }),
            ErrorKind::invalid_argument);
}

TEST(Alloc, AllocationsAreListedByAddressAndFoundByAnyAddressInside) {
  RuntimeRig rig;
  AllocOptions options;
  options.tag = "first";
  options.chunk_bytes = rig.page();
  auto* first = static_cast<std::byte*>(rig.runtime().alloc(3 * rig.page(), gpu(0), options));
  std::uint64_t* second = rig.alloc(rig.page(), host(0));
  rig.runtime().migrate(first, rig.page(), rig.page(), gpu(1));

  const AllocationInfo info = rig.runtime().allocation(first + 2 * rig.page() + 5);
  EXPECT_EQ(info.pointer, first);
  EXPECT_EQ(info.bytes, 3 * rig.page());
  EXPECT_EQ(info.chunk_bytes, rig.page());
  EXPECT_EQ(info.tag, "first");
  EXPECT_TRUE(info.movable);
  EXPECT_FALSE(info.parked);
  EXPECT_EQ(info.extents, rig.runtime().where(first));
  EXPECT_EQ(info.extents.size(), 3u);

  {
    const Pin pin = rig.runtime().pin(first);
    EXPECT_FALSE(rig.runtime().allocation(first).movable);
  }
  rig.runtime().park("first");
  EXPECT_TRUE(rig.runtime().allocation(first).parked);

  const std::vector<AllocationInfo> all = rig.runtime().allocations();
  EXPECT_TRUE(std::ranges::is_sorted(all, std::less<>(), &AllocationInfo::pointer));
  EXPECT_EQ(std::ranges::count(all, static_cast<void*>(first), &AllocationInfo::pointer), 1);
  EXPECT_EQ(std::ranges::count(all, static_cast<void*>(second), &AllocationInfo::pointer), 1);
  rig.runtime().free(second);
  EXPECT_EQ(rig.runtime().allocations().size(), all.size() - 1);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().allocation(second); }), ErrorKind::unknown_pointer);
}

}  // namespace
}  // namespace vma
