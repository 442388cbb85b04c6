// Goal: a captured graph with a kernel, a copy and a fill, all on managed memory, can be launched
// repeatedly while all operands move live in all directions. Method: compares byte for byte with
// the same sequence on memory that does not move.

#include "gpu/gpu_test.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <fmt/format.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// Three operands, and a graph that increments the first, copies it to the second, fills half of
/// the third and increments all of it.
class CountingGraph {
 public:
  static constexpr std::uint64_t words = 2 * gpu_chunk_bytes / sizeof(std::uint64_t);
  static constexpr std::size_t operand_count = 3;

  CountingGraph(GpuRig& rig, Stream stream) : rig_(rig), driver_(*parts_of(rig.runtime()).driver) {
    const StreamHandle handle{reinterpret_cast<std::uint64_t>(stream)};
    stream_ = {driver_.stream_context(handle), handle};
    AllocOptions options;
    options.chunk_bytes = gpu_chunk_bytes;
    options.zeroed = true;
    for (std::uint64_t*& operand : operands_) {
      operand = static_cast<std::uint64_t*>(
          rig.runtime().alloc(words * sizeof(std::uint64_t), gpu(0), options));
    }
    add_ = driver_.load_kernel(stream_.context, add_kernel());
    driver_.begin_capture(stream_, CaptureMode::relaxed);
    enqueue();
    const GraphHandle graph = driver_.end_capture(stream_);
    ready_ = driver_.instantiate(graph);
    driver_.destroy_graph(graph);
  }
  ~CountingGraph() {
    driver_.destroy_exec_graph(ready_);
    driver_.unload_kernel(add_);
    for (std::uint64_t* operand : operands_) rig_.runtime().free(operand);
  }
  CountingGraph(const CountingGraph&) = delete;
  CountingGraph& operator=(const CountingGraph&) = delete;

  void launch() { driver_.launch_graph(stream_, ready_); }
  void wait() { driver_.wait_stream(stream_, never); }
  std::uint64_t* operand(std::size_t i) const { return operands_[i]; }
  std::vector<std::uint64_t> bytes(std::size_t i) {
    std::vector<std::uint64_t> all(words);
    rig_.runtime().read(operands_[i], std::as_writable_bytes(std::span(all)));
    return all;
  }

  /// Which words differ from those of the other, as text; empty if none does.
  std::string difference(CountingGraph& other, std::size_t i) {
    const auto ours = bytes(i), theirs = other.bytes(i);
    std::uint64_t count = 0, first = 0;
    for (std::uint64_t word = 0; word < words; ++word) {
      if (ours[word] == theirs[word]) continue;
      if (count++ == 0) first = word;
    }
    if (count == 0) return "";
    std::string homes;
    for (const Extent& part : rig_.runtime().where(operands_[i])) {
      homes += fmt::format(" {}", to_string(part.at));
    }
    return fmt::format(
        "operand {}: {} of {} words differ, the first at {}: {:#x}, wanted {:#x}; it "
        "lies at{}",
        i, count, words, first, ours[first], theirs[first], homes);
  }

 private:
  void enqueue() {
    const auto add = [&](std::uint64_t* operand, std::uint64_t value) {
      driver_.launch(stream_, add_, {{32}, {256}}, KernelArguments::of(operand, words, value));
    };
    add(operands_[0], 3);
    driver_.copy(stream_, address_of(operands_[1]), address_of(operands_[0]),
                 words * sizeof(std::uint64_t));
    driver_.fill(stream_, address_of(operands_[2]), std::byte{0x5A},
                 words / 2 * sizeof(std::uint64_t));
    add(operands_[2], 5);
  }

  GpuRig& rig_;
  Driver& driver_;
  BoundStream stream_;
  std::uint64_t* operands_[operand_count] = {};
  KernelHandle add_{};
  ExecGraphHandle ready_{};
};

template <typename Machine>
class GpuGraphs : public GpuTest<Machine> {};
TYPED_TEST_SUITE(GpuGraphs, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuGraphs, AGraphGoesOnWhileAllItsOperandsMove) {
  GpuRig& rig = this->rig();
  Runtime& runtime = rig.runtime();
  const Stream stream = rig.stream(0);
  const AttachedStream attached(runtime, stream);
  CountingGraph moved(rig, stream), unmoved(rig, stream);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> launches{0};
  std::thread launcher([&] {
    constexpr std::uint64_t enqueued_max = 4;
    while (!stop) {
      moved.launch();
      if (++launches % enqueued_max == 0) moved.wait();
    }
    moved.wait();
  });
  std::mt19937_64 random(1);
  const int moves = this->on_gpus_or_simulated(60, 8);
  int done = 0, chunks = 0, given_up = 0;
  for (int i = 0; i < moves; ++i) {
    std::vector<Migration> under_way;
    for (std::size_t operand = 0; operand < CountingGraph::operand_count; ++operand) {
      const Place to = rig.places()[random() % rig.places().size()];
      under_way.push_back(runtime.migrate_async(moved.operand(operand), to));
    }
    for (const Migration& move : under_way) {
      try {
        move.wait();
        ++done;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::busy) << error.what();
      }
      chunks += move.report().chunks_moved;
      given_up += move.report().retries;
    }
  }
  stop = true;
  launcher.join();
  for (std::uint64_t i = 0; i < launches; ++i) unmoved.launch();
  unmoved.wait();
  for (std::size_t operand = 0; operand < CountingGraph::operand_count; ++operand) {
    EXPECT_EQ(moved.difference(unmoved, operand), "");
  }
  EXPECT_GT(chunks, 0);
  fmt::print("{} launches beside {} moves of {} chunks, {} gates given up\n", launches.load(), done,
             chunks, given_up);
}

TYPED_TEST(GpuGraphs, ReplayRightlyWhereverTheirOperandsLie) {
  GpuRig& rig = this->rig();
  Runtime& runtime = rig.runtime();
  const Stream stream = rig.stream(0);
  CountingGraph moved(rig, stream), unmoved(rig, stream);
  for (int round = 0; round < 2; ++round) {
    for (const Place at : rig.places()) {
      for (std::size_t operand = 0; operand < CountingGraph::operand_count; ++operand) {
        runtime.migrate(moved.operand(operand), at);
      }
      moved.launch();
      unmoved.launch();
      moved.wait();
      for (std::size_t operand = 0; operand < CountingGraph::operand_count; ++operand) {
        EXPECT_EQ(moved.difference(unmoved, operand), "") << to_string(at);
      }
    }
  }
}

}  // namespace
}  // namespace vma
