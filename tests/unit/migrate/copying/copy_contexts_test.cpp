// Goal: copies run in contexts of the program while nothing is stopped, and elsewhere under a gate
// or a hold; what exists is used before anything is created; a context that cannot be used is
// avoided.
#include "migrate/copying/copy_contexts.hpp"

#include "driver/native_codes.hpp"
#include "machine/machine_file.hpp"
#include "migrate/copying/copy_engine.hpp"
#include "support/test_machines.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr ContextFacts idle{.application_active = true};

TEST(CopyContextChoice, IsTheProgramsContextOnlyWhileNothingIsStopped) {
  EXPECT_EQ(choose_context(CopyUnder::nothing, idle), CopyContext::application);
  EXPECT_EQ(choose_context(CopyUnder::gate, idle), CopyContext::own);
  EXPECT_EQ(choose_context(CopyUnder::hold, idle), CopyContext::own);
}

TEST(CopyContextChoice, IsAContextOfOurOwnIfThatExistsOrIsAskedForOrIsTheOnlyOne) {
  for (const CopyUnder under : {CopyUnder::nothing, CopyUnder::gate, CopyUnder::hold}) {
    ContextFacts exists = idle, only = idle;
    exists.own_exists = true;
    only.own_only = true;
    EXPECT_EQ(choose_context(under, exists), CopyContext::own);
    EXPECT_EQ(choose_context(under, only), CopyContext::own);
    EXPECT_EQ(choose_context(under, {}), CopyContext::own);
  }
}

/// A machine whose program has contexts on some GPUs only.
class ContextProgram {
 public:
  ContextProgram(const std::vector<int>& gpus, const SimOptions& options = {},
                 bool own_contexts = false)
      : driver(test_machine("test-4"), options),
        faults(driver),
        topology(Topology::discover(faults, {})),
        gpus_(gpus) {
    for (const int gpu : gpus) primaries.push_back(driver.retain_primary(DeviceId{gpu}));
    memory.emplace(faults, topology, MemoryLimits{});
    engine.emplace(faults, topology, memory->contexts(), memory->chunks().ledger(),
                   memory->chunks().slow_calls().turn(), own_contexts);
  }
  ~ContextProgram() {
    faults.fail_calls({});
    engine.reset();
    memory.reset();
    for (const int gpu : gpus_) driver.release_primary(DeviceId{gpu});
    EXPECT_EQ(driver.leaks(), std::vector<std::string>{});
  }
  ContextProgram(const ContextProgram&) = delete;
  ContextProgram& operator=(const ContextProgram&) = delete;

  /// The context in which the route runs.
  ContextHandle context(Place from, Place to, CopyUnder under) {
    engine->prepare(from, to, 1, under);
    return engine->spare_stream(from, to, under).context;
  }
  bool is_programs(ContextHandle context) const {
    return std::ranges::find(primaries, context) != primaries.end();
  }
  /// The numbered call among these fails, and those after it.
  void fail_all(Call call) {
    std::set<int> numbers;
    for (int number = 0; number < 100; ++number) numbers.insert(number);
    faults.count_only({call});
    faults.fail_calls(numbers);
  }

  SimDriver driver;
  FaultDriver faults;
  Topology topology;
  std::vector<ContextHandle> primaries;
  std::optional<Memory> memory;
  std::optional<CopyEngine> engine;

 private:
  std::vector<int> gpus_;
};

TEST(CopyContexts, AreThoseOfTheProgramOnTheSourceOrElseOnTheTarget) {
  ContextProgram program({0, 1});
  EXPECT_EQ(program.context(gpu(0), gpu(1), CopyUnder::nothing), program.primaries[0]);
  EXPECT_EQ(program.context(gpu(1), gpu(0), CopyUnder::nothing), program.primaries[1]);
  EXPECT_EQ(program.context(gpu(2), gpu(1), CopyUnder::nothing), program.primaries[1]) << "pulls";
  EXPECT_EQ(program.context(host(0), gpu(1), CopyUnder::nothing), program.primaries[1]);
  EXPECT_EQ(program.context(host(0), host(0), CopyUnder::nothing), program.primaries[0]);
  EXPECT_EQ(program.context(gpu(3), gpu(3), CopyUnder::nothing), program.primaries[0])
      << "few bytes may pass through another GPU";
  EXPECT_FALSE(program.is_programs(program.context(gpu(2), gpu(3), CopyUnder::nothing)))
      << "all bytes of a move may not";
}

TEST(CopyContexts, OfOurOwnAreCreatedOnceAndUsedForAllFromThenOn) {
  ContextProgram program({0, 1});
  const ContextHandle own = program.context(gpu(0), gpu(1), CopyUnder::hold);
  EXPECT_FALSE(program.is_programs(own));
  EXPECT_EQ(program.engine->own_context(DeviceId{0}), own);
  EXPECT_EQ(program.context(gpu(0), host(0), CopyUnder::gate), own);
  EXPECT_EQ(program.context(gpu(1), gpu(0), CopyUnder::hold), own) << "it pulls";
  EXPECT_EQ(program.context(gpu(0), host(0), CopyUnder::nothing), own);
}

/// A driver that does not say one time how much is free.
class SilentDriver final : public InterceptDriver {
 public:
  SilentDriver(Driver& inner, int unsaid) : InterceptDriver(inner), unsaid_(unsaid) {}
  void count_from_now() { asked_ = 0; }
  std::uint64_t free_bytes(DeviceId device) override {
    if (asked_++ == unsaid_) throw Error(ErrorKind::driver_failure, "a test", "");
    return InterceptDriver::free_bytes(device);
  }

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
  const int unsaid_;
  int asked_ = 1000;
};

TEST(CopyContexts, OfOurOwnTakeAnUnknownAmountIfTheDriverDoesNotSay) {
  for (const int unsaid : {0, 1, 2}) {  // Before one is created, afterwards, and never.
    SimDriver machine(load_machine("h200x2"));
    machine.retain_primary(DeviceId{0});
    SilentDriver driver(machine, unsaid);
    const Topology topology = Topology::discover(driver, {});
    Memory memory(driver, topology, MemoryLimits{});
    CopyContexts contexts(driver, topology, memory.contexts(), memory.chunks().ledger(), true);
    driver.count_from_now();
    contexts.open({DeviceId{0}, CopyContext::own});
    EXPECT_EQ(contexts.own_bytes(DeviceId{0}),
              unsaid == 2 ? machine.machine().costs.own_context_bytes : 0)
        << unsaid;
  }
}

TEST(CopyContexts, OfTheProgramAreNotUsedIfItWantsThat) {
  ContextProgram program({0, 1}, {}, true);
  EXPECT_FALSE(program.is_programs(program.context(gpu(0), gpu(1), CopyUnder::nothing)));
  EXPECT_FALSE(program.engine->can_copy_ahead(gpu(0), gpu(1)));
}

TEST(CopyContexts, AreOurOwnWhereTheProgramHasNone) {
  ContextProgram program({});
  const ContextHandle own = program.context(gpu(1), host(0), CopyUnder::nothing);
  EXPECT_FALSE(program.driver.context_active(DeviceId{1})) << "the primary one stays closed";
  EXPECT_EQ(program.context(gpu(1), gpu(1), CopyUnder::hold), own);
}

TEST(CopyContexts, UnderAGateAreOurOwn) {
  ContextProgram program({0, 1});
  const ContextHandle own = program.context(gpu(0), gpu(1), CopyUnder::gate);
  EXPECT_FALSE(program.is_programs(own));
  EXPECT_EQ(program.context(gpu(0), host(0), CopyUnder::gate), own);
  EXPECT_EQ(program.context(gpu(0), gpu(1), CopyUnder::hold), own);
  EXPECT_EQ(program.memory->contexts().list().size(), 2u) << "it is not in use";
}

TEST(CopyContexts, SayWhatToDoIfThereIsNoRoomForThem) {
  ContextProgram program({0, 1});
  program.fail_all(Call::create_own_context);
  const Error error = expect_error(ErrorKind::out_of_memory, [&] {
    program.engine->prepare(gpu(0), gpu(1), 1, CopyUnder::hold);
  });
  EXPECT_TRUE(says(error, "gpu(0) has no room for a context")) << error.what();
  EXPECT_TRUE(says(error, "vma::trim")) << error.what();
  EXPECT_EQ(program.context(gpu(0), gpu(1), CopyUnder::nothing), program.primaries[0]);
  program.faults.fail_calls({});
  EXPECT_FALSE(program.is_programs(program.context(gpu(0), gpu(1), CopyUnder::hold)));
}

/// A driver in which all work of one context has failed for good.
class BrokenPrimaryDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  BoundStream create_stream(ContextHandle context, StreamKind kind) override {
    refuse(context);
    return InterceptDriver::create_stream(context, kind);
  }
  void copy(BoundStream stream, Address target, Address source, std::uint64_t bytes) override {
    refuse(stream.context);
    InterceptDriver::copy(stream, target, source, bytes);
  }
  bool query_stream(BoundStream stream) override {
    refuse(stream.context);
    return InterceptDriver::query_stream(stream);
  }
  bool wait_stream(BoundStream stream, TimePoint deadline) override {
    refuse(stream.context);
    return InterceptDriver::wait_stream(stream, deadline);
  }

  ContextHandle broken{};

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
  void refuse(ContextHandle context) const {
    if (is_none(broken) || context != broken) return;
    throw driver_error(native_launch_failed, "cuStreamQuery");
  }
};

class BrokenContext : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(RouteIsOld, BrokenContext, testing::Bool());

TEST_P(BrokenContext, OfTheProgramIsAvoided) {
  MoveRig rig;
  BrokenPrimaryDriver driver(rig.driver());
  Memory memory(driver, rig.topology(), {});
  CopyEngine engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
                    memory.chunks().slow_calls().turn());
  const auto allocation = memory.alloc(rig.page(), gpu(0), {});
  const Chunk& chunk = allocation->chunk(0);
  std::vector<std::byte> bytes(100, std::byte{7}), found(100);
  if (GetParam()) {
    engine.write(chunk, allocation->begin(), bytes);
    engine.prepare(gpu(0), gpu(1), 1, CopyUnder::nothing);
    EXPECT_EQ(engine.spare_stream(gpu(0), gpu(1), CopyUnder::nothing).context, rig.context(0));
  }
  driver.broken = rig.context(0);
  engine.write(chunk, allocation->begin(), bytes);
  engine.read(chunk, allocation->begin(), found);
  EXPECT_EQ(found, bytes);
  engine.prepare(gpu(0), gpu(1), 1, CopyUnder::nothing);
  EXPECT_NE(engine.spare_stream(gpu(0), gpu(1), CopyUnder::nothing).context, rig.context(0));
  EXPECT_FALSE(chunk.busy());
  driver.broken = {};
  memory.free(allocation->begin());
}

TEST(CopyContexts, LetCopiesRunAheadOfAHoldInAContextWithTwoQueues) {
  ContextProgram program({0});
  EXPECT_TRUE(program.engine->can_copy_ahead(gpu(0), gpu(1)));
  EXPECT_TRUE(program.engine->can_copy_ahead(gpu(1), gpu(0)));
  EXPECT_FALSE(program.engine->can_copy_ahead(gpu(1), gpu(2))) << "the program has none there";
  EXPECT_TRUE(program.engine->hold_creates_context(gpu(0), gpu(1)));
  program.engine->prepare(gpu(0), gpu(1), 1, CopyUnder::hold);
  EXPECT_FALSE(program.engine->hold_creates_context(gpu(0), gpu(1)));
  EXPECT_FALSE(program.engine->hold_creates_context(gpu(2), gpu(0))) << "it can pull";
  EXPECT_TRUE(program.engine->hold_creates_context(gpu(2), gpu(3)));
}

TEST(CopyContexts, LetNoCopiesRunAheadOnceOneHasNotRun) {
  ContextProgram program({0});
  program.engine->distrust_ahead();
  EXPECT_FALSE(program.engine->can_copy_ahead(gpu(0), gpu(1)));
}

}  // namespace
}  // namespace vma
