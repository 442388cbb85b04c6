// Goal: gates bring together streams whose backlogs differ by tens of milliseconds, with a skew
// limit that widens with every try and is kept; a move that gives up says which stream it waited
// for, how long, and what helps. Method: a stepped machine with programs that launch in bursts.
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds first_limit(5);
/// Enough to double the limit up to 80 ms; more tries would only add luck.
constexpr int retries = 4;
constexpr int moves = 5;

/// A migrator with its own limits, attached streams, and memory to move.
struct SkewRig {
  SkewRig(const SimOptions& options, milliseconds limit_max)
      : rig("test-2", {}, options),
        migrator(
            rig.memory(), rig.engine(),
            MigratorLimits{
                .gate_limit = first_limit, .gate_limit_max = limit_max, .gate_retries = retries}),
        allocation(rig.filled(4, gpu(0), 4, 7)) {
    for (int gpu = 0; gpu < 2; ++gpu) {
      streams.push_back(rig.new_stream(gpu));
      rig.launch_spin(streams.back(), TimePoint(1));  // The first load waits for the context.
      migrator.attached().attach(streams.back(), Address{});
    }
  }
  ~SkewRig() {
    for (const BoundStream stream : streams) migrator.attached().detach(stream, Address{});
    rig.free(allocation);
  }
  MigrationReport move(const MigrateOptions& options = {}, Place to = gpu(1)) {
    const auto task = migrator.submit(allocation, {0, 1}, to, options);
    task->wait();
    if (task->error()) std::rethrow_exception(task->error());
    return task->report();
  }
  std::string name(int stream) const {
    const auto handle = static_cast<std::uint64_t>(streams.at(stream).handle);
    return fmt::format("stream {:#x} of gpu({})", handle, stream);
  }

  MoveRig rig;
  Migrator migrator;
  const std::shared_ptr<Allocation> allocation;
  std::vector<BoundStream> streams;
};

/// Launches a burst of kernels, waits for all of it, and repeats.
class Bursts {
 public:
  Bursts(SkewRig& skew, BoundStream stream, TimePoint burst)
      : rig_(skew.rig), stream_(stream), burst_(burst) {
    task_ = rig_.machine().executor().spawn("program", [this] { run(); });
  }
  ~Bursts() {
    ended_ = true;
    task_->join();
  }

 private:
  void run() {
    constexpr int kernels = 8;
    while (!ended_) {
      for (int i = 0; i < kernels; ++i) rig_.launch_spin(stream_, burst_ / kernels);
      rig_.machine().wait_stream(stream_, never);
    }
  }
  MoveRig& rig_;
  const BoundStream stream_;
  const TimePoint burst_;
  bool ended_ = false;  // Only one thread runs at a time.
  std::unique_ptr<Task> task_;
};

struct Skew {
  std::uint64_t seed;
  milliseconds burst;  ///< Of one stream; that of the other is a tenth of it.
};

class WideSkew : public testing::TestWithParam<Skew> {};
INSTANTIATE_TEST_SUITE_P(Streams, WideSkew,
                         testing::Values(Skew{1, milliseconds(5)}, Skew{2, milliseconds(10)},
                                         Skew{3, milliseconds(20)}, Skew{4, milliseconds(20)},
                                         Skew{5, milliseconds(35)}, Skew{6, milliseconds(50)},
                                         Skew{7, milliseconds(50)}));

TEST_P(WideSkew, IsBroughtTogetherByALimitThatWidens) {
  step(GetParam().seed, [](const SimOptions& options) {
    constexpr milliseconds limit_max(80);
    SkewRig skew(options, limit_max);
    const Bursts deep(skew, skew.streams[0], GetParam().burst);
    const Bursts shallow(skew, skew.streams[1], GetParam().burst / 10);
    MigrateOptions patient;
    patient.deadline = seconds(60);
    for (int move = 0; move < moves; ++move) {
      const MigrationReport report = skew.move(patient, gpu((move + 1) % 2));
      EXPECT_EQ(report.outcome, Outcome::done);
      EXPECT_GE(report.gate_limit, first_limit);
      EXPECT_LE(report.gate_limit, limit_max);
      EXPECT_LE(report.skew.max, report.gate_limit);
      EXPECT_LE(report.stall.max, report.gate_limit);
    }
    EXPECT_EQ(skew.rig.wrong(*skew.allocation, 7), 0u);
  });
}

TEST(WideSkewTest, EndsInBusyWithALimitThatStays) {
  int busy = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    step(seed, [&](const SimOptions& options) {
      SkewRig skew(options, milliseconds(0));
      const Bursts deep(skew, skew.streams[0], milliseconds(50));
      const Bursts shallow(skew, skew.streams[1], milliseconds(5));
      try {
        for (int move = 0; move < moves; ++move) {
          EXPECT_EQ(skew.move({}, gpu((move + 1) % 2)).gate_limit, first_limit);
        }
      } catch (const Error& error) {
        ++busy;
        EXPECT_EQ(error.kind(), ErrorKind::busy) << error.what();
        ASSERT_NE(error.report(), nullptr);
        EXPECT_EQ(error.report()->gate_limit, first_limit);
        EXPECT_TRUE(says(error, "RuntimeOptions::gate_limit")) << error.what();
      }
    });
  }
  EXPECT_GT(busy, 0) << "or the limit need not widen";
}

TEST(BusyMessage, NamesTheStreamItsBacklogAndWhatHelps) {
  step(1, [](const SimOptions& options) {
    SkewRig skew(options, milliseconds(80));
    skew.rig.launch_spin(skew.streams[1], seconds(40));
    const Error error = expect_error(ErrorKind::busy, [&] { skew.move(); });
    EXPECT_TRUE(says(error, "not_arrived: 1 of 2 streams")) << error.what();
    EXPECT_TRUE(says(error, skew.name(1))) << error.what();
    EXPECT_TRUE(says(error, "time(s) in 30000 ms")) << error.what();
    EXPECT_TRUE(says(error, "(nothing was stopped)")) << error.what();
    EXPECT_TRUE(says(error, "MigrateOptions::deadline")) << error.what();
    MigrateOptions patient;
    patient.deadline = seconds(60);
    EXPECT_EQ(skew.move(patient).outcome, Outcome::done) << "what the message says helps";
  });
}

TEST(BusyMessage, NamesTheOnlyStreamToo) {
  step(1, [](const SimOptions& options) {
    SkewRig skew(options, milliseconds(80));
    skew.migrator.attached().detach(skew.streams[0], Address{});
    MigrateOptions brief;
    brief.deadline = milliseconds(1);
    skew.rig.launch_spin(skew.streams[1], seconds(60));
    const Error error = expect_error(ErrorKind::busy, [&] { skew.move(brief); });
    EXPECT_TRUE(says(error, skew.name(1))) << error.what();
    EXPECT_TRUE(says(error, "MigrateOptions::deadline")) << error.what();
    skew.migrator.attached().attach(skew.streams[0], Address{});
  });
}

TEST(BusyMessage, NamesTheStreamThatCaptures) {
  step(1, [](const SimOptions& options) {
    SkewRig skew(options, milliseconds(80));
    skew.rig.machine().begin_capture(skew.streams[1], CaptureMode::relaxed);
    const Error error = expect_error(ErrorKind::busy, [&] { skew.move(); });
    EXPECT_TRUE(says(error, "capture: " + skew.name(1))) << error.what();
    skew.rig.machine().destroy_graph(skew.rig.machine().end_capture(skew.streams[1]));
    EXPECT_EQ(skew.move().outcome, Outcome::done);
  });
}

TEST(ModeLive, NamesWhatMovesAChunkThatItCannot) {
  step(1, [](const SimOptions& options) {
    SkewRig skew(options, milliseconds(80));
    MigrateOptions live;
    live.mode = Mode::live;
    const auto task = skew.migrator.submit(skew.allocation, {0, 1}, host(0), live);
    task->wait();
    EXPECT_EQ(task->report().outcome, Outcome::done) << "to a host node it can";
    const Error error = expect_error(ErrorKind::unsupported, [&] { skew.move(live); });
    EXPECT_TRUE(says(error, "cannot move live from host(0) to gpu(1)")) << error.what();
    EXPECT_TRUE(says(error, "Mode::automatic")) << error.what();
    EXPECT_EQ(skew.move().outcome, Outcome::done);
  });
}

}  // namespace
}  // namespace vma
