// Goal: a run on the simulated machine leaves a recording of what happened: the program's uses and
// moves, and the scheduler's decisions. Times of the simulator depend on this processor, so only
// independent values are compared with a replay.

#include "lab/fidelity/recorded_run.hpp"

#include "base/units.hpp"
#include "lab/fidelity/fidelity.hpp"
#include "lab/fidelity/recorded_machine.hpp"
#include "lab/import/recording_records.hpp"
#include "support/read_kernel.hpp"
#include "unit/recording/record_samples.hpp"
#include "unit/runtime/scoped_variable.hpp"

#include <vma/vma.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <set>

namespace vma {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t run_chunk_bytes = 2 * MiB, chunks = 4;

/// GPU 1 reads an array at GPU 0, one chunk of which the program has moved to host memory, until
/// all of it has come to GPU 1 and a while longer.
class Reader {
 public:
  Reader() : runtime_(options()) {
    stream_ = runtime_.make_stream(gpu(1));
    sum_ = static_cast<std::uint64_t*>(
        runtime_.alloc(sizeof *sum_, gpu(1), {.tag = "sum", .zeroed = true, .movable = false}));
    data_ = static_cast<std::byte*>(
        runtime_.alloc(chunks * run_chunk_bytes, gpu(0),
                       {.chunk_bytes = run_chunk_bytes, .tag = "data", .zeroed = true}));
    runtime_.step_scheduler();  // Notices where the array is.
    runtime_.migrate(data_, run_chunk_bytes, run_chunk_bytes, host(0));
    runtime_.step_scheduler();
  }

  void run() {
    const AttachedStream attached(runtime_, stream_);
    const auto limit = std::chrono::steady_clock::now() + 60s;
    auto end = limit;
    while (std::chrono::steady_clock::now() < end) {
      read();
      if (end == limit && runtime_.scheduler_stats().moves_done >= chunks)
        end = std::chrono::steady_clock::now() + 300ms;
    }
    ASSERT_LT(end, limit) << "the scheduler did not move everything";
  }
  void finish() {
    // Uses of memory that is freed before the scheduler looks are not recorded.
    runtime_.step_scheduler();
    runtime_.destroy_stream(stream_);
    runtime_.free(data_);
    runtime_.free(sum_);
    runtime_.shutdown();
  }
  std::uint64_t launches() const { return launches_; }

 private:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.driver = "sim:h200x2";
    options.policy = "cost_benefit";
    options.half_life = 50ms;
    options.max_stall = 1500us;
    return options;
  }
  void read() {
    const LaunchShape shape = read_shape();
    const std::size_t bytes = chunks * run_chunk_bytes;
    const Use use{data_, bytes, gpu(1)};
    runtime_.launch_using(stream_, read_kernel(), shape.grid, shape.block,
                          read_arguments(data_, bytes, 1, sum_), {&use, 1});
    runtime_.synchronize(stream_);
    ++launches_;
  }

  Runtime runtime_;
  Stream stream_ = nullptr;
  std::uint64_t* sum_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t launches_ = 0;
};

/// The decision numbers of moves, and those of decisions that planned a move.
class DecisionNumbers : public RecordListener {
 public:
  void begin_file(const RecordingHeader&) override {}
  void damaged(const RecordingDamage&) override { ADD_FAILURE() << "a damaged recording"; }
  void add(const RecordedEvent& event) override {
    if (const auto* move = std::get_if<RecordedMove>(&event)) of_moves.insert(move->decision);
    const auto* decision = std::get_if<Decision>(&event);
    if (decision != nullptr && decision->kind == DecisionKind::planned)
      planned.insert(decision->sequence);
  }
  std::set<std::uint64_t> of_moves, planned;
};

TEST(RecordedRun, OfASimulatedMachineTellsWhatHappened) {
  const TemporaryFolder folder;
  std::uint64_t launches = 0;
  {
    const ScopedVariable record("VMART_RECORD", folder.path().c_str());
    Reader reader;
    reader.run();
    reader.finish();
    launches = reader.launches();
  }
  ASSERT_EQ(folder.files().size(), 1u);
  const std::string path = folder / folder.files().front();
  RecordedRun run;
  read_run(path, 0, run);
  const RecordedFacts& facts = run.facts;
  EXPECT_EQ(facts.accesses, launches);
  EXPECT_EQ(facts.bytes, static_cast<double>(launches * chunks * run_chunk_bytes));
  EXPECT_GT(facts.own_bytes, 0);
  EXPECT_LT(facts.own_bytes, facts.bytes);
  EXPECT_EQ(facts.program_moves, 1u);
  EXPECT_EQ(facts.moves, chunks);
  EXPECT_EQ(facts.bytes_moved, chunks * run_chunk_bytes);
  EXPECT_EQ(facts.bytes_by_route.at("host(0)>gpu(1)"), run_chunk_bytes);
  EXPECT_EQ(facts.bytes_by_route.at("gpu(0)>gpu(1)"), 3 * run_chunk_bytes);
  EXPECT_GE(facts.stalls, 2u) << "a gate for each route, at least";
  EXPECT_GT(facts.stall, Time::zero());
  ASSERT_TRUE(run.header.scheduler);
  EXPECT_EQ(run.header.scheduler->policy, "cost_benefit");
  EXPECT_EQ(run.header.scheduler->half_life, Time(50ms));
  EXPECT_EQ(run.header.scheduler->max_stall, Time(1500us));
  EXPECT_EQ(run.header.gaps.kernel.size(), 2u);

  DecisionNumbers numbers;
  read_records(path, numbers);
  EXPECT_EQ(numbers.of_moves.erase(0), 1u) << "the program's";
  for (const std::uint64_t number : numbers.of_moves) EXPECT_TRUE(numbers.planned.contains(number));

  PredictOptions options;
  options.pacing = Pacing::timed;  // The number of uses depends on this processor.
  const ReplayReport report = predict(run, recorded_machine(run.header, std::nullopt), options);
  EXPECT_EQ(report.accesses, facts.accesses);
  EXPECT_EQ(report.bytes_by_route, facts.bytes_by_route);
}

}  // namespace
}  // namespace vma
