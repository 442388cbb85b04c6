// Goal: for a kernel that the program launches itself, exactly the runtime's memory that its
// parameters point into is recorded, whatever the parameters are. Method: kernels with PTX, loaded
// into the simulated machine without the runtime; the machine reports their layout.
#include "runtime/runtime_parts.hpp"
#include "support/test_run.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <vma/vma.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <span>
#include <utility>

namespace vma {
namespace {

struct RecordedLaunch : testing::Test {
  ~RecordedLaunch() override {
    for (const KernelHandle kernel : kernels) rig.machine().unload_kernel(kernel);
    rig.machine().release_primary(DeviceId{0});
  }

  /// The handle that a program would have as a CUfunction.
  const void* load(const std::string& declarations) {
    const auto number = kernels.size();
    Kernel kernel;
    kernel.entry = fmt::format("kernel_{}", number);
    kernel.ptx = fmt::format(".visible .entry {}({})\n{{ ret; }}", kernel.entry, declarations);
    kernel.host_body = [](DeviceView&, const KernelArguments&, LaunchShape) {};
    kernels.push_back(rig.machine().load_kernel(context, kernel));
    return reinterpret_cast<const void*>(static_cast<std::uint64_t>(kernels.back()));
  }
  void record(const void* function, std::vector<const void*> parameters, Place device = gpu(1)) {
    rig.runtime().record_launch(function, parameters.data(), device);
  }
  /// Passes the same parameters as one block, with 0xff in the gaps.
  void record_block(const void* function, const std::vector<const void*>& parameters) {
    const KernelParameters known = rig.machine().kernel_parameters(function);
    ASSERT_EQ(known.list.size(), parameters.size());
    std::vector<std::byte> block;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ParameterInfo& info = known.list[i];
      block.resize(info.offset_bytes + info.size_bytes, std::byte{0xff});
      std::memcpy(block.data() + info.offset_bytes, parameters[i], info.size_bytes);
    }
    rig.runtime().record_launch(function, block, gpu(1));
    if (block.empty()) return;
    block.pop_back();
    EXPECT_EQ(kind_of_error([&] { rig.runtime().record_launch(function, block, gpu(1)); }),
              ErrorKind::invalid_argument);
  }
  std::vector<LoggedUse> uses() {
    std::vector<LoggedUse> uses;
    parts_of(rig.runtime()).uses->collect(uses, 1000);
    return uses;
  }
  /// The allocations in the uses recorded since the last call.
  std::set<Address> begins() {
    std::set<Address> begins;
    const Registry& registry = parts_of(rig.runtime()).machinery->memory.registry();
    for (const LoggedUse& use : uses()) {
      begins.insert(registry.bounds(registry.find(use.address)->id)->begin);
    }
    return begins;
  }

  RuntimeRig rig;
  ContextHandle context = rig.machine().retain_primary(DeviceId{0});
  std::vector<KernelHandle> kernels;
  char* first = reinterpret_cast<char*>(rig.alloc(2 * chunk_bytes, gpu(0)));
  char* second = reinterpret_cast<char*>(rig.alloc(chunk_bytes, gpu(1)));
};

TEST_F(RecordedLaunch, UsesWhatItsParametersPointInto) {
  const void* kernel =
      load(".param .u32 count, .param .u64 words, .param .align 8 .b8 view[24], .param .u64 again");
  const std::uint32_t count = 7;
  const char* words = first + 100;
  const struct {
    std::uint64_t size;
    const char* pointer;
    double rest;
  } view{100, second, 0.5};
  record(kernel, {&count, &words, &view, &words});
  const std::vector<LoggedUse> recorded = uses();
  ASSERT_EQ(recorded.size(), 2u) << "two parameters are the same";
  EXPECT_EQ(recorded[0].address, address_of(words));
  EXPECT_EQ(recorded[0].bytes, 0u) << "unknown";
  EXPECT_EQ(recorded[0].device, DeviceId{1});
  EXPECT_EQ(recorded[0].kind, UseKind::unknown);
  EXPECT_EQ(recorded[1].address, address_of(second));
}

TEST_F(RecordedLaunch, OfABlockUsesWhatItsParametersPointInto) {
  const void* kernel = load(".param .u32 count, .param .u64 words, .param .align 8 .b8 view[24]");
  const std::uint32_t count = 7;
  const char* words = first + 100;
  const void* view[] = {nullptr, second, nullptr};
  record_block(kernel, {&count, &words, view});
  EXPECT_EQ(begins(), (std::set<Address>{address_of(first), address_of(second)}));
  // Bytes after the last parameter are ignored.
  const void* single = load(".param .u64 words");
  const void* longer[] = {first, second};
  rig.runtime().record_launch(single, std::as_bytes(std::span(longer)), gpu(0));
  EXPECT_EQ(begins(), std::set<Address>{address_of(first)});
  record_block(load(""), {});
  EXPECT_EQ(begins(), std::set<Address>{});
}

TEST_F(RecordedLaunch, UsesNothingByWhatPointsElsewhere) {
  const void* kernel = load(".param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d");
  void* freed = rig.alloc(chunk_bytes, gpu(0));
  rig.runtime().free(freed);
  const std::uint64_t end = reinterpret_cast<std::uintptr_t>(second) + chunk_bytes;
  const std::uint64_t stack = reinterpret_cast<std::uintptr_t>(&end);
  const std::uint64_t zero = 0, ones = ~std::uint64_t{0}, small = 8;
  record(kernel, {&zero, &ones, &small, &stack});
  record(kernel, {&freed, &freed, &end, &end});
  EXPECT_EQ(begins(), std::set<Address>{});
}

TEST_F(RecordedLaunch, ReadsNoMoreThanAParameterHas) {
  // After each piece comes the rest of a pointer that must not be read; a sanitizer sees any such
  // read.
  for (std::size_t bytes = 1; bytes < sizeof(first); ++bytes) {
    SCOPED_TRACE(bytes);
    const void* kernel = load(fmt::format(".param .align 8 .b8 piece[{}]", bytes));
    std::vector<char> piece(bytes);
    std::memcpy(piece.data(), &first, bytes);
    record(kernel, {piece.data()});
    EXPECT_EQ(begins(), std::set<Address>{});
    // A word and a piece: only the word counts.
    const void* longer = load(fmt::format(".param .align 8 .b8 tail[{}]", sizeof(first) + bytes));
    std::vector<char> tail(sizeof(first) + bytes);
    std::memcpy(tail.data(), &second, sizeof(second));
    std::memcpy(tail.data() + sizeof(second), &first, bytes);
    record(longer, {tail.data()});
    EXPECT_EQ(begins(), std::set<Address>{address_of(second)});
  }
}

TEST_F(RecordedLaunch, TakesNoPointerFromBetweenTwoWords) {
  const void* kernel =
      load(".param .u32 n, .param .align 4 .b8 six[24], .param .align 8 .b8 b[24]");
  const std::uint32_t n = 1;
  char six[24] = {}, between[24] = {};
  std::memcpy(six, &first, sizeof(first));  // At offset 4 of the launch.
  std::memcpy(six + 12, &first, sizeof(first));
  std::memcpy(between + 4, &first, sizeof(first));
  record(kernel, {&n, six, between});
  EXPECT_EQ(begins(), std::set<Address>{});
}

TEST_F(RecordedLaunch, WithoutParametersUsesNothing) {
  const void* kernel = load("");
  rig.runtime().record_launch(kernel, nullptr, gpu(0));
  EXPECT_EQ(begins(), std::set<Address>{});
}

TEST_F(RecordedLaunch, ThatCannotHaveBeenIsRefusedAndRecordsNothing) {
  const void* kernel = load(".param .u64 a, .param .u64 b");
  const void* parameters[] = {&first, &second};
  const void* half[] = {&first, nullptr};
  const auto kind = [&](const void* function, const void* const* values, Place device) {
    return kind_of_error([&] { rig.runtime().record_launch(function, values, device); });
  };
  EXPECT_EQ(kind(nullptr, parameters, gpu(0)), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(kernel, nullptr, gpu(0)), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(kernel, half, gpu(0)), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(kernel, parameters, gpu(2)), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(kernel, parameters, gpu(-1)), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(kernel, parameters, host(0)), ErrorKind::invalid_argument);
  EXPECT_EQ(kind(this, parameters, gpu(0)), ErrorKind::invalid_argument) << "no kernel";
  EXPECT_EQ(kind(load(".param .odd a"), parameters, gpu(0)), ErrorKind::unsupported);
  EXPECT_EQ(begins(), std::set<Address>{});
  rig.runtime().shutdown();
  EXPECT_EQ(kind(kernel, parameters, gpu(0)), ErrorKind::driver_gone);
}

TEST_F(RecordedLaunch, OfAKernelThatWasUnloadedIsRefused) {
  const void* kernel = load(".param .u64 a, .param .u64 b");
  record(kernel, {&first, &second});
  record(kernel, {&first, &second});
  EXPECT_EQ(uses().size(), 4u);
  rig.machine().unload_kernel(kernels.back());
  kernels.pop_back();
  rig.runtime().forget_kernels();
  const void* parameters[] = {&first, &second};
  EXPECT_EQ(kind_of_error([&] { rig.runtime().record_launch(kernel, parameters, gpu(0)); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(begins(), std::set<Address>{});
}

TEST_F(RecordedLaunch, OfForgottenKernelsIsTheSame) {
  const void* kernel = load(".param .u64 a, .param .u64 b");
  record(kernel, {&first, &second});
  rig.runtime().forget_kernels();
  EXPECT_EQ(parts_of(rig.runtime()).machinery->kernels.size(), 0u);
  record(kernel, {&first, &second});
  EXPECT_EQ(uses().size(), 4u);
  rig.runtime().shutdown();
  EXPECT_EQ(kind_of_error([&] { rig.runtime().forget_kernels(); }), ErrorKind::driver_gone);
}

/// For arbitrary bytes there is a use for each allocation that an aligned word points into.
TEST_F(RecordedLaunch, OfGarbageUsesWhatItsWordsSay) {
  constexpr std::size_t words = 40;
  const void* kernel = load(fmt::format(".param .align 8 .b8 all[{}]", words * 8));
  const std::pair<Address, std::uint64_t> memory[] = {{address_of(first), 2 * chunk_bytes},
                                                      {address_of(second), chunk_bytes}};
  const std::vector<AllocationInfo> all = rig.runtime().allocations();  // The rig has some, too.
  std::mt19937_64 random(run_seed());
  for (int launch = 0; launch < 300; ++launch) {
    std::vector<std::uint64_t> block(words);
    std::set<Address> expected;
    for (std::uint64_t& word : block) {
      word = random();
      const auto& [near, size] = memory[random() % 2];
      // Before, inside or after it.
      if (random() % 8 == 0) word = to_integer(near) - size + random() % (3 * size);
      for (const AllocationInfo& each : all) {
        const Address begin = address_of(each.pointer);
        if (word - to_integer(begin) < each.bytes) expected.insert(begin);
      }
    }
    record(kernel, {block.data()});
    ASSERT_EQ(begins(), expected) << "launch " << launch << ", seed " << run_seed();
  }
}

}  // namespace
}  // namespace vma
