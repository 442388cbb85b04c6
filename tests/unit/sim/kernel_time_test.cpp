// Goal: a kernel takes the time of the bytes that it accesses, and on a stepped machine other
// streams run between its accesses. Method: kernels of many megabytes on "h200x2", whose rates are
// known; a copying kernel concurrent with a writing one on "test-2", under many seeds.
#include "base/units.hpp"
#include "support/stepped_executor.hpp"
#include "unit/sim/sim_rig.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace vma {
namespace {

constexpr double fixed_us = 5 + 3.5;  // The overhead of a kernel and of the calls around it.

struct KernelTimeTest : testing::Test {
  SimRig rig{"h200x2"};

  static double us(TimePoint time) { return static_cast<double>(time.count()) / 1e3; }

  using Body = std::function<void(DeviceView&)>;
  struct Item {
    BoundStream stream;
    std::function<void(BoundStream)> enqueue;
  };
  Item kernel(BoundStream stream, Body body) {
    Kernel kernel{"", "test",
                  [body](DeviceView& view, const KernelArguments&, LaunchShape) { body(view); }};
    const KernelHandle loaded = rig.driver().load_kernel(stream.context, kernel);
    return {stream, [this, loaded](BoundStream on) { rig.driver().launch(on, loaded, {}, {}); }};
  }
  /// The time from before the first enqueue to the end of the last kernel.
  double took(const std::vector<Item>& works) {
    const TimePoint before = rig.driver().clock().now();
    for (const Item& work : works) work.enqueue(work.stream);
    for (const Item& work : works) rig.finish(work.stream);
    return us(rig.driver().clock().now() - before);
  }

  static Body reading(const SimRig::Memory& memory) {
    return [memory](DeviceView& view) {
      std::vector<std::byte> tile(256 * KiB);
      for (std::uint64_t done = 0; done < memory.size_bytes; done += tile.size()) {
        view.read(to_pointer(memory.address + done), tile);
      }
    };
  }
  static Body writing(const SimRig::Memory& memory) {
    return [memory](DeviceView& view) {
      const std::vector<std::byte> tile(256 * KiB);
      for (std::uint64_t done = 0; done < memory.size_bytes; done += tile.size()) {
        view.write(to_pointer(memory.address + done), tile);
      }
    };
  }
};

TEST_F(KernelTimeTest, BytesOfItsOwnGpuPassAtTwiceTheRateOfACopy) {
  const auto memory = rig.allocate(gpu(0), 64 * MiB);
  EXPECT_NEAR(took({kernel(rig.stream(0), [](DeviceView&) {})}), fixed_us, 1);
  // 4 200 GB/s.
  EXPECT_NEAR(took({kernel(rig.stream(0), reading(memory))}), fixed_us + 16, 2);
}

TEST_F(KernelTimeTest, BytesOfOtherPlacesPassAtTheRateOfTheirRoute) {
  const auto peer = rig.allocate(gpu(1), 64 * MiB), far = rig.allocate(host(0), 16 * MiB);
  // 397 GB/s each way, 55 GB/s from the host.
  EXPECT_NEAR(took({kernel(rig.stream(0), reading(peer))}), fixed_us + 169, 3);
  EXPECT_NEAR(took({kernel(rig.stream(0), writing(peer))}), fixed_us + 169, 3);
  EXPECT_NEAR(took({kernel(rig.stream(0), reading(far))}), fixed_us + 305, 5);
}

TEST_F(KernelTimeTest, KernelsAndCopiesShareALinkInOneDirection) {
  const auto peer = rig.allocate(gpu(1), 64 * MiB), own = rig.allocate(gpu(0), 64 * MiB);
  const BoundStream other = rig.new_stream(0);
  EXPECT_NEAR(took({kernel(rig.stream(0), reading(peer)), kernel(other, reading(peer))}),
              fixed_us + 338, 6);
  EXPECT_NEAR(took({kernel(rig.stream(0), reading(peer)), kernel(other, writing(peer))}),
              fixed_us + 169, 6);
  const Item copy{other, [&](BoundStream stream) {
                    rig.driver().copy(stream, own.address, peer.address, 64 * MiB);
                  }};
  EXPECT_NEAR(took({kernel(rig.stream(0), reading(peer)), copy}), fixed_us + 338, 6);
  EXPECT_NEAR(took({kernel(rig.stream(0), writing(peer)), copy}), fixed_us + 169, 6);
}

/// Copies a range in tiles while kernels set all of its words to their number, and returns the
/// contents of the copy.
std::vector<std::uint64_t> copied_beside_writers(std::uint64_t seed) {
  constexpr std::uint64_t words = 64, tile_words = 4;
  SteppedExecutor executor({seed, 4});
  SimOptions options;
  options.stepped = &executor;
  options.seed = seed;
  std::vector<std::uint64_t> copied(words);
  executor.run([&] {
    SimRig rig("test-2", options);
    const auto from = rig.allocate(gpu(0), rig.page()), to = rig.allocate(gpu(1), rig.page());
    const auto write = [&](std::uint64_t value) {
      rig.launch(rig.stream(0), [&, value](DeviceView& view) {
        for (std::uint64_t i = 0; i < words; ++i) view.store(from.words() + i, value);
      });
    };
    write(0);
    rig.finish(rig.stream(0));
    std::uint64_t* gate = rig.new_word();
    for (int i = 0; i < 2; ++i) rig.batch_wait(rig.stream(i), gate, 1);
    rig.launch(rig.stream(1), [&](DeviceView& view) {
      std::vector<std::byte> tile(tile_words * sizeof(std::uint64_t));
      for (std::uint64_t i = 0; i < words; i += tile_words) {
        view.read(from.words() + i, tile);
        view.write(to.words() + i, tile);
      }
    });
    for (const std::uint64_t value : {1, 2}) write(value);
    *gate = 1;
    rig.finish(rig.stream(0));
    rig.finish(rig.stream(1));
    rig.driver().copy(rig.stream(0), address_of(copied.data()), to.address, words * 8);
    rig.finish(rig.stream(0));
  });
  return copied;
}

TEST(KernelInterleaving, ACopyingKernelReadsBetweenTheStoresOfOthers) {
  int mixed = 0, torn_tiles = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<std::uint64_t> copied = copied_beside_writers(seed);
    mixed += std::set(copied.begin(), copied.end()).size() > 1;
    for (std::size_t i = 0; i < copied.size(); i += 4) torn_tiles += copied[i] != copied[i + 3];
    EXPECT_EQ(copied, copied_beside_writers(seed)) << "seed " << seed;
  }
  EXPECT_GE(mixed, 20) << "of 60 copies";
  EXPECT_GT(torn_tiles, 0);
}

}  // namespace
}  // namespace vma
