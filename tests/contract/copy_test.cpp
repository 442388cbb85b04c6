// Goal: copies, fills and graphs stay right when the mappings behind their addresses change.
// Method: fills by kernels, moves bytes by the copy engine, reads by the kernels of every GPU.

#include "contract/contract_test.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

template <typename Machine>
class Copies : public ContractTest<Machine> {
 protected:
  /// Moves the mapping's bytes to another place at the same address, by hand.
  void move(TestMapping& mapping, Place to) {
    const std::vector<Accessor> all = all_gpus(this->driver());
    const TestMapping spare(this->driver(), gpu(0), mapping.size_bytes(), all);
    const std::uint64_t bytes = mapping.size_bytes();
    ASSERT_EQ(this->rig().run_copy(0, spare.address(), mapping.address(), bytes), 0);
    mapping.replace(to, all);
    ASSERT_EQ(this->rig().run_copy(0, mapping.address(), spare.address(), bytes), 0);
  }
  std::vector<std::uint64_t> read(const TestMapping& mapping) {
    std::vector<std::uint64_t> words(mapping.words());
    const Address out = address_of(words.data());
    EXPECT_EQ(this->rig().run_copy(0, out, mapping.address(), mapping.size_bytes()), 0);
    return words;
  }
};
TYPED_TEST_SUITE(Copies, ContractMachines, MachineNames);

TYPED_TEST(Copies, OneCopyAndOneFillCrossMappingsOfMixedPlaces) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const std::uint64_t page = rig.page();
  const Place places[] = {gpu(0), gpu(rig.gpus() - 1), host(0), gpu(0)};
  const Address begin = driver.reserve(4 * page, 0);
  std::vector<ChunkHandle> chunks;
  for (std::uint64_t i = 0; i < 4; ++i) {
    chunks.push_back(driver.create(places[i], page));
    driver.map(begin + i * page, page, chunks.back());
  }
  driver.grant(begin, 4 * page, all_gpus(driver));

  const TestMapping source(driver, gpu(0), 4 * page, all_gpus(driver));
  const TestMapping back(driver, gpu(0), 4 * page, all_gpus(driver));
  rig.fill(0, source, 500);
  EXPECT_EQ(rig.run_copy(0, begin, source.address(), 4 * page), 0);
  EXPECT_EQ(rig.run_copy(0, back.address(), begin, 4 * page), 0);
  EXPECT_EQ(rig.mismatches(0, back, 500), 0u);

  // A fill across the border of the first two, and across that of the second and the host's.
  for (const std::uint64_t border : {page, 2 * page}) {
    const BoundStream stream = rig.stream(0);
    EXPECT_EQ(
        rig.finish(stream, [&] { driver.fill(stream, begin + (border - 64), std::byte{3}, 128); }),
        0);
    EXPECT_EQ(rig.word_at(0, begin + (border - 8)), 0x0303030303030303u);
    EXPECT_EQ(rig.word_at(0, begin + border), 0x0303030303030303u);
    EXPECT_EQ(rig.word_at(0, begin + (border + 64)), 500 + border / 8 + 8);
  }
  driver.unmap(begin, 4 * page);
  for (const ChunkHandle chunk : chunks) driver.release(chunk);
  driver.unreserve(begin, 4 * page);
}

TYPED_TEST(Copies, PageableMemoryIsCopiedBeforeTheCallsWorkIsDone) {
  ContractRig& rig = this->rig();
  const TestMapping mapping(this->driver(), gpu(0), rig.page(), all_gpus(this->driver()));
  std::vector<std::uint64_t> words(mapping.words());
  for (std::uint64_t i = 0; i < words.size(); ++i) words[i] = 900 + i;
  EXPECT_EQ(rig.run_copy(0, mapping.address(), address_of(words.data()), mapping.size_bytes()), 0);
  EXPECT_EQ(rig.mismatches(0, mapping, 900), 0u);
  std::vector<std::uint64_t> read(mapping.words());
  EXPECT_EQ(rig.run_copy(0, address_of(read.data()), mapping.address(), mapping.size_bytes()), 0);
  EXPECT_EQ(read, words);
}

TYPED_TEST(Copies, AGraphReplaysOnMemoryThatHasMovedWhicheverOfItsOperandsItIs) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const std::uint64_t page = rig.page();
  const std::vector<Accessor> all = all_gpus(driver);
  // A separate mapping for each operand: of a kernel, of a copy as source and as target, and of a
  // fill.
  TestMapping worked(driver, gpu(0), page, all), source(driver, gpu(0), page, all);
  TestMapping target(driver, gpu(0), page, all), filled(driver, gpu(0), page, all);
  rig.kernel(rig.context(0), add_kernel());

  const BoundStream stream = rig.new_stream(rig.context(0));
  driver.begin_capture(stream, CaptureMode::relaxed);
  EXPECT_TRUE(driver.is_capturing(stream));
  rig.launch(stream, add_kernel(), worked.pointer(), worked.words(), std::uint64_t{1});
  driver.copy(stream, target.address(), source.address(), page);
  driver.fill(stream, filled.address(), std::byte{0x55}, page);
  const GraphHandle graph = driver.end_capture(stream);
  EXPECT_FALSE(driver.is_capturing(stream));
  const ExecGraphHandle ready = driver.instantiate(graph);

  std::uint64_t replays = 0;
  const auto replay = [&] {
    const std::uint64_t seed = 1000 * ++replays;
    for (const TestMapping* operand : {&worked, &source, &target, &filled}) {
      rig.fill(0, *operand, operand == &source ? seed : 7);
    }
    ASSERT_EQ(rig.finish(stream, [&] { driver.launch_graph(stream, ready); }), 0);
    EXPECT_EQ(rig.mismatches(0, worked, 8), 0u);
    EXPECT_EQ(rig.mismatches(0, source, seed), 0u);
    EXPECT_EQ(rig.mismatches(0, target, seed), 0u);
    const std::vector<std::uint64_t> bytes = this->read(filled);
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0x5555555555555555u),
              static_cast<std::ptrdiff_t>(bytes.size()));
  };
  replay();
  const std::pair<TestMapping*, const char*> operands[] = {
      {&worked, "kernel's"}, {&source, "copied from"}, {&target, "copied to"}, {&filled, "filled"}};
  for (const auto& [operand, name] : operands) {
    for (const Place to : {gpu(rig.gpus() - 1), host(0), gpu(0)}) {
      SCOPED_TRACE(std::string(name) + " memory at " + to_string(to));
      this->move(*operand, to);
      replay();
    }
  }
  SCOPED_TRACE("after a time without memory, which was the driver's");
  for (const auto& [operand, name] : operands) {
    operand->unmap();
    operand->release();
  }
  std::vector<ChunkHandle> chunks;
  for (const auto& [operand, name] : operands) {
    chunks.push_back(driver.create(gpu(0), page));
    driver.map(operand->address(), page, chunks.back());
    driver.grant(operand->address(), page, all);
  }
  replay();
  for (const auto& [operand, name] : operands) driver.unmap(operand->address(), page);
  for (const ChunkHandle chunk : chunks) driver.release(chunk);
  driver.destroy_exec_graph(ready);
  driver.destroy_graph(graph);
}

TYPED_TEST(Copies, KeepersAreAllowedForHostMemoryToo) {
  // Every place has a small chunk that stays mapped for all; later chunks come and go next to it.
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const std::vector<Accessor> all = all_gpus(driver);
  const TestMapping device_keeper(driver, gpu(0), rig.page(), all);
  const TestMapping host_keeper(driver, host(0), rig.page(), all);
  for (const Place at : {gpu(0), host(0)}) {
    TestMapping mapping(driver, at, 4 * rig.page(), {});
    const TimePoint start = driver.clock().now();
    mapping.grant(all);
    this->report("grant beside keepers at " + to_string(at),
                 std::to_string((driver.clock().now() - start).count() / 1000) + " us");
    rig.fill(0, mapping, 3);
    EXPECT_EQ(rig.mismatches(rig.gpus() - 1, mapping, 3), 0u);
  }
}

}  // namespace
}  // namespace vma
