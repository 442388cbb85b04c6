// Goal: a move that gives up says which stream it waited for, how long, and what helps. Method: a
// stepped machine without context holds, so that gates are all that can stop work.
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Attached streams, and memory to move.
struct GatesRig {
  explicit GatesRig(SimOptions options, int count = 2)
      : rig("test-2", {}, (options.context_holds = false, options)),
        allocation(rig.filled(4, gpu(0), 4, 7)) {
    for (int gpu = 0; gpu < count; ++gpu) {
      streams.push_back(rig.new_stream(gpu));
      rig.launch_spin(streams.back(), TimePoint(1));  // The first load waits for the context.
      rig.mover().attached().attach(streams.back(), Address{});
    }
  }
  ~GatesRig() {
    for (const BoundStream stream : streams) rig.mover().attached().detach(stream, Address{});
    rig.free(allocation);
  }
  MigrationReport move(const MigrateOptions& options = {}, Location to = gpu(1)) {
    const auto task = rig.mover().submit(allocation, {0, 1}, to, options);
    task->wait();
    if (task->error()) std::rethrow_exception(task->error());
    return task->report();
  }
  std::string name(int stream) const {
    const auto handle = static_cast<std::uint64_t>(streams.at(stream).handle);
    return fmt::format("stream {:#x} of gpu({})", handle, stream);
  }

  MoveRig rig;
  const std::shared_ptr<Allocation> allocation;
  std::vector<BoundStream> streams;
};

TEST(BusyMessage, NamesTheStreamAndWhatHelps) {
  step(1, [](const SimOptions& options) {
    GatesRig gates(options, 1);
    gates.rig.launch_spin(gates.streams[0], seconds(40));
    const Error error = expect_error(ErrorKind::busy, [&] { gates.move(); });
    EXPECT_TRUE(says(error, "not_arrived: 1 of 1 streams")) << error.what();
    EXPECT_TRUE(says(error, gates.name(0))) << error.what();
    EXPECT_TRUE(says(error, "(nothing was stopped)")) << error.what();
    EXPECT_TRUE(says(error, "MigrateOptions::deadline")) << error.what();
    MigrateOptions patient;
    patient.deadline = seconds(60);
    EXPECT_EQ(gates.move(patient).outcome, Outcome::done) << "what the message says helps";
  });
}

TEST(BusyMessage, NamesTheStreamThatOthersStoodFor) {
  step(1, [](const SimOptions& options) {
    GatesRig gates(options);
    gates.rig.launch_spin(gates.streams[1], seconds(40));
    const Error error = expect_error(ErrorKind::busy, [&] { gates.move(); });
    EXPECT_TRUE(says(error, "not_arrived: 1 of 2 streams")) << error.what();
    EXPECT_TRUE(says(error, gates.name(1))) << error.what();
    EXPECT_TRUE(says(error, "RuntimeOptions::gate_limit")) << error.what();
  });
}

TEST(BusyMessage, NamesTheStreamThatCaptures) {
  step(1, [](const SimOptions& options) {
    GatesRig gates(options);
    gates.rig.machine().begin_capture(gates.streams[1], CaptureMode::relaxed);
    const Error error = expect_error(ErrorKind::busy, [&] { gates.move(); });
    EXPECT_TRUE(says(error, "capture: " + gates.name(1))) << error.what();
    gates.rig.machine().destroy_graph(gates.rig.machine().end_capture(gates.streams[1]));
    EXPECT_EQ(gates.move().outcome, Outcome::done);
  });
}

TEST(ModeLive, NamesWhatMovesAChunkThatItCannot) {
  step(1, [](const SimOptions& options) {
    GatesRig gates(options);
    MigrateOptions live;
    live.mode = Mode::live;
    const auto task = gates.rig.mover().submit(gates.allocation, {0, 1}, host(0), live);
    task->wait();
    EXPECT_EQ(task->report().outcome, Outcome::done) << "to a host node it can";
    const Error error = expect_error(ErrorKind::unsupported, [&] { gates.move(live); });
    EXPECT_TRUE(says(error, "cannot move live from host(0) to gpu(1)")) << error.what();
    EXPECT_TRUE(says(error, "Mode::automatic")) << error.what();
    EXPECT_EQ(gates.move().outcome, Outcome::done);
  });
}

}  // namespace
}  // namespace vma
