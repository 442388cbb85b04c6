// Goal: a move whose stop waits behind its own settling work ends soon, and whole; one whose stop
// waits behind a deep backlog is not taken for it. Method: a stepped machine, on which what the
// application does next waits for whatever settles in its context, as a driver makes it wait beside
// a thread that unloads modules.
#include "driver/intercept_driver.hpp"
#include "unit/migrate/move_rig.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What a stream does next waits for the graphs that other streams of its context were given.
class OrderingDriver : public InterceptDriver {
 public:
  OrderingDriver(MoveRig& rig, BoundStream stream)
      : InterceptDriver(static_cast<Driver&>(rig.driver())),
        stream_(stream),
        spin_(inner().load_kernel(stream.context, Kernel{"", "spin", {}})) {}
  ~OrderingDriver() override { inner().unload_kernel(spin_); }

  void launch_graph(BoundStream stream, ExecGraphHandle graph) override {
    InterceptDriver::launch_graph(stream, graph);
    if (stream.context != stream_.context) return;
    if (++launched == 2 && backlog > TimePoint(0))
      inner().launch(stream_, spin_, {}, KernelArguments::of(backlog.count()));
    if (!orders) return;
    const EventHandle event = inner().create_event(stream.context);
    inner().record(event, stream);
    inner().stream_wait_event(stream_, event);
    inner().destroy_event(event);
  }

  bool orders = true;
  TimePoint backlog{0};  // Comes with the second graph, which settles; the first one copies.
  int launched = 0;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }

  const BoundStream stream_;
  const KernelHandle spin_;
};

struct OverdueRig {
  explicit OverdueRig(const SimOptions& options)
      : rig("test-2", {}, options),
        stream(rig.new_stream(0)),
        driver(rig, stream),
        memory(driver, rig.topology(), {}),
        engine(driver, rig.topology(), memory.contexts(), memory.ledger(), memory.lane().turn()),
        mover(memory, engine, MoverLimits{}) {
    mover.attached().attach(stream, Address{});
    allocation = memory.alloc(4 * rig.page(), gpu(0), {});
  }
  ~OverdueRig() {
    mover.attached().detach(stream, Address{});
    memory.free(allocation->begin());
  }
  MigrationReport move() {
    const SlotRange all{0, allocation->geometry().slots};
    const auto task = mover.submit(allocation, all, gpu(1), {});
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
  Mover mover;
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

}  // namespace
}  // namespace vma
