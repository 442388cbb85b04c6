// Goal: a move whose stop waits behind its own settling work ends soon and with all bytes; a stop
// behind a deep backlog is not mistaken for this case. Method: a stepped machine on which the
// application's next work waits for settling work in its context, as a real driver makes it wait
// while a thread unloads modules.
#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Makes the stream's next work wait for what is launched on other streams of its context.
class OrderingDriver : public InterceptDriver {
 public:
  OrderingDriver(MoveRig& rig, BoundStream stream)
      : InterceptDriver(static_cast<Driver&>(rig.driver())),
        stream_(stream),
        spin_(inner().load_kernel(stream.context, Kernel{"", "spin", {}})) {}
  ~OrderingDriver() override { inner().unload_kernel(spin_); }

  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override {
    launch_as([&] { InterceptDriver::launch(stream, kernel, shape, arguments); }, stream);
  }
  void launch_graph(BoundStream stream, ExecGraphHandle graph) override {
    launch_as([&] { InterceptDriver::launch_graph(stream, graph); }, stream);
  }

  void note_stopped(int change) noexcept override { stopped += change; }

  void spin(TimePoint duration) {
    inner().launch(stream_, spin_, {}, KernelArguments::of(duration.count()));
  }

  bool orders = true;
  int orders_after = 0;        // Only after this many launches.
  TimePoint before_second{0};  // Delays the second launch on its stream.
  // Added to the application's stream with the second launch, which settles; the first one copies.
  TimePoint backlog{0};
  int launched = 0;  // In the application's context.
  int launches = 0;
  int over_at_once = 0;  // The number of the launch that is waited for at once; counts from 1.
  int stopped = 0;       // The number of gates that count as closed.
  int creates = 0, creates_while_stopped = 0;

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (call == Call::create) ++creates;
    if (call == Call::create && stopped > 0) ++creates_while_stopped;
    body();
  }
  /// A copy, or the settling of chunks.
  template <typename Launch>
  void launch_as(Launch&& launch, BoundStream stream) {
    if (++launches == 2 && before_second > TimePoint(0))
      inner().launch(stream, spin_, {}, KernelArguments::of(before_second.count()));
    launch();
    if (launches == over_at_once) inner().wait_stream(stream, never);
    if (stream.context != stream_.context) return;
    if (++launched == 2 && backlog > TimePoint(0))
      inner().launch(stream_, spin_, {}, KernelArguments::of(backlog.count()));
    if (!orders || launches <= orders_after) return;
    const EventHandle event = inner().create_event(stream.context);
    inner().record(event, stream);
    inner().stream_wait_event(stream_, event);
    inner().destroy_event(event);
  }

  const BoundStream stream_;
  const KernelHandle spin_;
};

struct OverdueRig {
  explicit OverdueRig(const SimOptions& options, std::uint64_t chunks = 1)
      : rig("test-2", {}, options),
        stream(rig.new_stream(0)),
        driver(rig, stream),
        memory(driver, rig.topology(), {}),
        engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
               memory.chunks().slow_calls().turn()),
        migrator(memory, engine, MigratorLimits{}) {
    migrator.attached().attach(stream, Address{});
    AllocOptions in_chunks;
    in_chunks.chunk_bytes = 4 * rig.page();
    allocation = memory.alloc(chunks * 4 * rig.page(), gpu(0), in_chunks);
  }
  ~OverdueRig() {
    migrator.attached().detach(stream, Address{});
    memory.free(allocation->begin());
  }
  std::shared_ptr<MigrationTask> submit(const MigrateOptions& options = {}) {
    return migrator.submit(allocation, {0, allocation->geometry().slots}, gpu(1), options);
  }
  MigrationReport move() {
    const auto task = submit();
    task->wait();
    if (task->error()) std::rethrow_exception(task->error());
    return task->report();
  }
  TimePoint now() { return driver.clock().now(); }

  MoveRig rig;
  const BoundStream stream;
  OrderingDriver driver;
  Memory memory;
  CopyEngine engine;
  Migrator migrator;
  std::shared_ptr<Allocation> allocation;
};

class OverdueStop : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, OverdueStop, testing::Range<std::uint64_t>(1, 5));

TEST_P(OverdueStop, SettlesInAContextOfItsOwnWhereTheApplicationWaitsForIt) {
  step(GetParam(), [](const SimOptions& options) {
    OverdueRig rig(options);
    const TimePoint begin = rig.now();
    const MigrationReport report = rig.move();
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.reasons.at("not_arrived"), 2);
    EXPECT_EQ(report.reasons.count("live in a context of our own: a thread of the application "
                                   "waits for its context"),
              1u);
    EXPECT_EQ(rig.driver.launched, 3) << "the copy, and each try in the application's context";
    EXPECT_LE(rig.now() - begin, seconds(1));
  });
}

TEST_P(OverdueStop, WaitsForADeepBacklog) {
  step(GetParam(), [](const SimOptions& options) {
    OverdueRig rig(options);
    rig.driver.orders = false;
    rig.driver.backlog = milliseconds(400);
    const MigrationReport first = rig.move();
    EXPECT_EQ(first.reasons.at("not_arrived"), 1) << "before it has seen how deep it is";
    EXPECT_EQ(first.chunks_live, first.chunks_moved);
    EXPECT_EQ(first.reasons.size(), 1u) << "all in the application's context";
  });
}

/// A chunk's copy that was made ahead is given up when the chunk before it takes another way. The
/// copy runs on for long; the chunk is moved nevertheless.
TEST_P(OverdueStop, MovesAChunkWhoseCopyAheadWasGivenUp) {
  step(GetParam(), [](const SimOptions& options) {
    OverdueRig rig(options, 2);
    rig.rig.fill(*rig.allocation, 77);
    rig.driver.orders_after = 2;
    rig.driver.before_second = seconds(40);
    // Two tries in the application's context, one in another; then the copy of the second chunk.
    rig.driver.over_at_once = 7;
    MigrateOptions how;
    how.deadline = seconds(100);
    how.max_stall = std::chrono::microseconds(1);  // A gate for each chunk.
    const auto task = rig.submit(how);
    task->wait();
    EXPECT_EQ(rig.rig.wrong(*rig.allocation, 77), 0u);
    EXPECT_TRUE(rig.driver.wait_stream(rig.stream, never));
    EXPECT_GE(rig.memory.chunks().ledger().leaks(), 1u)
        << "the target of the copy that did not end";
    EXPECT_EQ(task->report().outcome, Outcome::done);
  });
}

TEST_P(OverdueStop, KeepsNobodyFromAllocatingWhileItWaitsForALongKernel) {
  step(GetParam(), [](const SimOptions& options) {
    OverdueRig rig(options);
    rig.driver.orders = false;
    rig.move();  // Creates everything that only the first move needs.
    rig.memory.free(rig.allocation->begin());
    rig.allocation = rig.memory.alloc(4 * rig.rig.page(), gpu(0), {});
    rig.driver.spin(milliseconds(1500));
    const auto task = rig.submit();
    poll_until(rig.driver.clock(), rig.now() + milliseconds(200), [] { return false; });
    const TimePoint begin = rig.now();
    const auto other = rig.memory.alloc(64 * rig.rig.page(), gpu(1), {});
    EXPECT_LE(rig.now() - begin, milliseconds(50));
    EXPECT_GT(rig.driver.creates, 0);
    EXPECT_EQ(rig.driver.creates_while_stopped, 0)
        << "the gate has released the turn for slow calls";
    EXPECT_FALSE(task->done()) << "the kernel still runs";
    task->wait();
    EXPECT_EQ(task->report().outcome, Outcome::done);
    rig.memory.free(other->begin());
  });
}

}  // namespace
}  // namespace vma
