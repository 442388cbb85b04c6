// Goal: memory moves in all directions, whole, in parts, at random and from several threads, and
// kernels of every GPU find every byte at the pointer, before and after.

#include "gpu/gpu_test.hpp"
#include "support/test_run.hpp"

#include <random>
#include <thread>

namespace vma {
namespace {

template <typename Machine>
class GpuMoves : public GpuTest<Machine> {};
TYPED_TEST_SUITE(GpuMoves, GpuMachines, GpuMachineNames);

TYPED_TEST(GpuMoves, KernelsOfEveryGpuReadAndWriteBeforeAndAfterEachMove) {
  GpuRig& rig = this->rig();
  std::uint64_t seed = 1'000'000;
  for (const Place from : rig.places()) {
    for (const Place to : rig.places()) {
      SCOPED_TRACE(to_string(from) + " to " + to_string(to));
      Pattern pattern(rig, from, 3);
      const int writer = static_cast<int>(seed / 1'000'000) % rig.gpus();
      pattern.fill(writer, seed += 1'000'000);
      pattern.check();
      const void* const before = pattern.pointer();
      const MigrationReport report = rig.runtime().migrate(pattern.pointer(), to);
      EXPECT_EQ(report.outcome, Outcome::done);
      EXPECT_EQ(report.bytes_moved, from == to ? 0 : pattern.size_bytes());
      EXPECT_EQ(pattern.pointer(), before);
      pattern.check_at(to);
      pattern.check();
      for (int gpu = 0; gpu < rig.gpus(); ++gpu) pattern.add(gpu, 17);
      pattern.check();
    }
  }
}

TYPED_TEST(GpuMoves, ARangeMovesAndTheRestStays) {
  GpuRig& rig = this->rig();
  Pattern pattern(rig, gpu(0), 5);
  pattern.write(42);
  // Some bytes of the second and of the third chunk.
  rig.runtime().migrate(pattern.pointer(), gpu_chunk_bytes + 100, gpu_chunk_bytes, gpu(1));
  rig.runtime().migrate(pattern.pointer(), 4 * gpu_chunk_bytes, 1, host(0));
  const std::vector<Extent> extents = rig.runtime().where(pattern.pointer());
  ASSERT_EQ(extents.size(), 4u);
  EXPECT_EQ(extents[1].at, gpu(1));
  EXPECT_EQ(extents[1].offset, gpu_chunk_bytes);
  EXPECT_EQ(extents[1].bytes, 2 * gpu_chunk_bytes);
  EXPECT_EQ(extents[3].at, host(0));
  pattern.check();
  pattern.add(1, 9);
  pattern.check();
}

TYPED_TEST(GpuMoves, ManyRandomMovesOfSeveralAllocationsLoseNothing) {
  GpuRig& rig = this->rig();
  std::printf("seed %llu\n", static_cast<unsigned long long>(run_seed()));
  std::mt19937_64 random(run_seed());
  const auto place = [&] { return rig.places()[random() % rig.places().size()]; };
  std::vector<std::unique_ptr<Pattern>> patterns;
  for (std::uint64_t i = 0; i < 4; ++i) {
    patterns.push_back(std::make_unique<Pattern>(rig, place(), 1 + i));
    patterns.back()->write(i << 40);
  }
  const int moves = this->on_gpus_or_simulated(1'000, 200);
  for (int move = 0; move < moves; ++move) {
    Pattern& pattern = *patterns[random() % patterns.size()];
    const std::uint64_t begin = random() % 3 == 0 ? random() % pattern.size_bytes() : 0;
    const std::uint64_t bytes = random() % (pattern.size_bytes() - begin) + 1;
    rig.runtime().migrate(pattern.pointer(), begin, bytes, place());
    const int gpu = static_cast<int>(random() % static_cast<unsigned>(rig.gpus()));
    if (random() % 4 == 0) pattern.add(gpu, random());
    if (random() % 8 == 0) pattern.check_by_kernel(gpu);
    if (testing::Test::HasFailure()) break;
  }
  for (const std::unique_ptr<Pattern>& pattern : patterns) pattern->check();
}

TYPED_TEST(GpuMoves, FourThreadsMoveAtOnce) {
  GpuRig& rig = this->rig();
  const int rounds = this->on_gpus_or_simulated(25, 6);
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&rig, rounds, number] {
      try {
        const std::size_t places = rig.places().size();
        Pattern pattern(rig, rig.places()[number % places], 2);
        pattern.write(std::uint64_t{number} << 40);
        for (int round = 0; round < rounds; ++round) {
          const std::size_t next = (number + static_cast<unsigned>(round) + 1) % places;
          rig.runtime().migrate(pattern.pointer(), rig.places()[next]);
          pattern.add(round % rig.gpus(), 1);
          pattern.check_by_kernel((round + 1) % rig.gpus());
        }
        pattern.check();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vma
