// Goal: when the runtime chooses a place for memory, every GPU that uses the memory still reaches
// it; a program itself may move it anywhere. Method: the machine test-islands, on which only GPUs 0
// and 1, and GPUs 2 and 3, reach each other; and one where reach is not mutual.
#include "machine/machine_file.hpp"
#include "memory/move_claim.hpp"
#include "parking/demotion.hpp"
#include "runtime/runtime_parts.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vma {
namespace {

void limit(Runtime& runtime, Place at, std::uint64_t chunks) {
  const std::uint64_t own_bytes =
      parts_of(runtime).machinery->memory.chunks().ledger().account(at).own_bytes;
  runtime.set_capacity(at, own_bytes + chunks * chunk_bytes);
}

class ResumeReachTest : public testing::Test {
 protected:
  ResumeReachTest() {
    AllocOptions options;
    options.chunk_bytes = chunk_bytes;
    options.tag = "kv";
    words_ = static_cast<std::uint64_t*>(runtime().alloc(4 * chunk_bytes, gpu(0), options));
    rig_.write(words_, count_, 7);
  }
  Runtime& runtime() { return rig_.runtime(); }
  /// Leaves no room at the GPUs of one island; those of the other have room.
  void fill_island() {
    for (const Place at : {gpu(0), gpu(1)}) {
      limit(runtime(), at, 6);
      fillers_.push_back(rig_.alloc(5 * chunk_bytes, at));
    }
  }
  void expect_refused_then_back(ParkContents contents) {
    const ParkReport report = runtime().resume("kv");
    EXPECT_EQ(report.bytes_moved, 0u);
    ASSERT_EQ(report.stayed.size(), 1u);
    EXPECT_NE(report.stayed[0].reason.find("gpu(2) has room, but"), std::string::npos)
        << report.stayed[0].reason;
    EXPECT_TRUE(runtime().is_parked("kv"));
    if (contents == ParkContents::keep) {
      EXPECT_EQ(rig_.wrong_for(0, words_, count_, 7), 0u);
    }
    runtime().free(fillers_[1]);
    EXPECT_EQ(runtime().resume("kv").bytes_elsewhere, 4 * chunk_bytes);
    EXPECT_EQ(rig_.place(words_), gpu(1)) << "the other of its island";
    rig_.fill_by(0, words_, count_, 9);
    EXPECT_EQ(rig_.wrong_for(1, words_, count_, 9), 0u);
  }

  static RuntimeOptions options_of_test() {
    RuntimeOptions options = patient();
    options.cache_bytes_per_gpu = 0;
    options.pressure_limit = std::chrono::milliseconds(0);
    return options;
  }
  static constexpr std::uint64_t count_ = 4 * chunk_bytes / 8;
  RuntimeRig rig_{"test-islands", options_of_test()};
  std::uint64_t* words_ = nullptr;
  std::vector<std::uint64_t*> fillers_;
};

TEST_F(ResumeReachTest, BringsBytesBackToNoGpuThatTheirOwnerCannotReach) {
  runtime().park("kv");
  fill_island();
  expect_refused_then_back(ParkContents::keep);
}

TEST_F(ResumeReachTest, GivesDroppedContentsNoMemoryThere) {
  ParkOptions drop;
  drop.contents = ParkContents::drop;
  runtime().park("kv", drop);
  fill_island();
  expect_refused_then_back(ParkContents::drop);
}

TEST_F(ResumeReachTest, BringsBackWhatTheProgramPutElsewhere) {
  runtime().migrate(words_, gpu(2));  // An explicit move is the program's decision.
  rig_.fill_by(3, words_, count_, 5);
  runtime().park("kv");
  limit(runtime(), gpu(2), 1);
  EXPECT_EQ(runtime().resume("kv").bytes_elsewhere, 4 * chunk_bytes);
  EXPECT_EQ(rig_.place(words_), gpu(3)) << "the other one of that island";
  EXPECT_EQ(rig_.wrong_for(2, words_, count_, 5), 0u);
}

// --- Policies

/// Wants every chunk, including new ones, at one place.
class WantsAt : public Policy {
 public:
  explicit WantsAt(std::size_t place) : place_(PlaceId{static_cast<std::uint8_t>(place)}) {}
  void on_alloc(const AllocRequest&, const Snapshot&, std::span<PlaceId> chunks) override {
    for (PlaceId& chunk : chunks) chunk = place_;
  }
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    for (std::size_t i = 0; i < snapshot.chunks().size(); ++i) {
      const ChunkId chunk{static_cast<std::uint32_t>(i)};
      if (snapshot.chunk(chunk).bytes > 0) plan.move(chunk, place_, 1, "the test wants it");
    }
  }

 private:
  const PlaceId place_;
};

RuntimeOptions wanting() {
  PolicyKind kind;
  kind.name = "wants_at";
  kind.parameters = {{"place", PolicyParameter::Type::count, 0, 0, 100, "where"}};
  kind.make = [](const PolicyValues& values) {
    return std::make_unique<WantsAt>(values.count("place"));
  };
  RuntimeOptions options;
  options.policies = {kind};
  return options;
}

std::uint64_t refused_as_unreachable(Runtime& runtime) {
  return runtime.scheduler_stats().moves_refused["unreachable"];
}

TEST(PolicyReach, NoMoveTakesMemoryOutOfReach) {
  SchedulerRig rig("wants_at:place=2", "test-islands", wanting());
  std::uint64_t* words = rig.alloc(2, gpu(0));
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(0));
  EXPECT_EQ(refused_as_unreachable(rig.runtime()), 2u);
  rig.runtime().set_policy("wants_at:place=1");
  rig.step();
  EXPECT_EQ(rig.place(words, 0), gpu(1));
  EXPECT_EQ(rig.place(words, 1), gpu(1));
}

TEST(PolicyReach, FollowsWhereTheProgramPutsIt) {
  SchedulerRig rig("wants_at:place=1", "test-islands", wanting());
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.runtime().migrate(words, gpu(2));
  rig.pass(std::chrono::seconds(10));
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(2));
  EXPECT_EQ(refused_as_unreachable(rig.runtime()), 1u);
  rig.runtime().set_policy("wants_at:place=3");
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(3));
}

TEST(PolicyReach, OfHostMemoryTheReadersAndTheAttachedStreamsCount) {
  SchedulerRig rig("wants_at:place=0", "test-islands", wanting());
  const std::vector<Place> readers{gpu(0), gpu(1)};
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  void* read_by_island = rig.runtime().alloc(chunk_bytes, host(0), readers, options);
  std::uint64_t* read_by_all = rig.alloc(1, host(0));
  rig.step();
  EXPECT_EQ(rig.place(static_cast<std::uint64_t*>(read_by_island)), gpu(0));
  EXPECT_EQ(rig.place(read_by_all), host(0)) << "streams of all four GPUs are attached";
  rig.detach_all();
  const Stream stream = rig.runtime().make_stream(gpu(1));
  {
    const AttachedStream attached(rig.runtime(), stream);
    rig.step();
    EXPECT_EQ(rig.place(read_by_all), gpu(0)) << "only gpu(1) uses memory now";
  }
  rig.runtime().destroy_stream(stream);
}

TEST(PolicyReach, NewMemoryGoesWhereItsUsersReachIt) {
  SchedulerRig rig("wants_at:place=2", "test-islands", wanting());
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  auto* words = static_cast<std::uint64_t*>(rig.runtime().alloc(chunk_bytes, options));
  EXPECT_EQ(rig.place(words), gpu(0));
  rig.runtime().set_policy("wants_at:place=1");
  words = static_cast<std::uint64_t*>(rig.runtime().alloc(chunk_bytes, options));
  EXPECT_EQ(rig.place(words), gpu(1));
}

TEST(DrainReach, LeavesThingsWhereTheirUsersReachThem) {
  SchedulerRig rig("stay_put", "test-islands");
  std::uint64_t* words = rig.alloc(4, gpu(0));
  rig.runtime().set_capacity(gpu(1), 1);
  rig.runtime().set_capacity(host(0), 1);
  DrainOptions options;
  options.deadline = std::chrono::milliseconds(50);
  const DrainReport report = rig.runtime().drain(gpu(0), options);
  EXPECT_EQ(report.bytes_left, 4 * chunk_bytes) << "there is room at gpu(2) and gpu(3) only";
  EXPECT_EQ(rig.place(words), gpu(0));
  rig.runtime().set_capacity(host(0), SIZE_MAX);
  EXPECT_EQ(rig.runtime().drain(gpu(0)).bytes_left, 0u);
  EXPECT_EQ(rig.place(words), host(0));
}

TEST(ControlReach, APeerIsRefused) {
  SchedulerRig rig("stay_put", "test-islands");
  std::uint64_t* words = rig.alloc(2, gpu(0));
  ControlTarget& control = parts_of(rig.runtime()).machinery->scheduling->control();
  const Selector what = Selector::of_address(to_integer(address_of(words)));
  const std::uint64_t operation = control.start_move({{what}, gpu(2)}).operation;
  std::string why;
  EXPECT_TRUE(comes_true([&] {
    for (const ControlEvent& event : control.events(0, 1'000).events) {
      if (event.operation == operation && event.kind == ControlEvent::Kind::operation_failed)
        why = event.text;
    }
    return !why.empty();
  }));
  EXPECT_NE(why.find("unreachable"), std::string::npos) << why;
  EXPECT_EQ(rig.place(words), gpu(0));
}

// --- Room

/// GPU 2 reaches GPU 0 but not GPU 1.
MachineDescription lopsided() {
  MachineDescription machine = load_machine("test-4");
  machine.peer_links[2][1] = PeerLink{};
  return machine;
}

TEST(DemotionReach, PassesOverAPlaceThatAUserDoesNotReach) {
  auto driver = std::make_unique<SimDriver>(lopsided());
  RuntimeOptions options = patient();
  options.cache_bytes_per_gpu = 0;
  Runtime runtime =
      runtime_of(std::make_unique<RuntimeParts>(std::move(driver), resolve_settings(options)));
  const AttachedStream attached(runtime, runtime.make_stream(gpu(0)));
  AllocOptions chunked;
  chunked.chunk_bytes = chunk_bytes;
  const std::vector<Place> readers{gpu(0), gpu(1)};
  void* of_all = runtime.alloc(chunk_bytes, gpu(0), chunked);
  void* of_two = runtime.alloc(chunk_bytes, gpu(0), readers, chunked);
  Machinery& machinery = *parts_of(runtime).machinery;
  const TimePoint until = parts_of(runtime).driver->clock().now() + std::chrono::hours(1);
  const std::vector<Place> order{gpu(1), gpu(3), host(0)};
  EXPECT_EQ(demote(machinery.memory, machinery.migrator, {gpu(0), 2 * chunk_bytes, until, order})
                .bytes_moved,
            2 * chunk_bytes);
  EXPECT_EQ(runtime.where(of_all).at(0).at, gpu(3));
  EXPECT_EQ(runtime.where(of_two).at(0).at, gpu(1));
}

TEST(DemotionReach, GoesOnBehindAChunkThatMayGoNowhere) {
  RuntimeOptions options = patient();
  options.cache_bytes_per_gpu = 0;
  Runtime runtime = runtime_of(std::make_unique<RuntimeParts>(
      std::make_unique<SimDriver>(lopsided()), resolve_settings(options)));
  const AttachedStream attached(runtime, runtime.make_stream(gpu(0)));
  AllocOptions chunked;
  chunked.chunk_bytes = chunk_bytes;
  void* words = runtime.alloc(2 * chunk_bytes, gpu(0), chunked);
  Machinery& machinery = *parts_of(runtime).machinery;
  const auto allocation = machinery.memory.require(words, "test");
  {
    const MutexLock lock(allocation->operations());
    allocation->note_wanted(1, gpu(1));  // Its users reach gpu(1); those of the first chunk do not.
  }
  const TimePoint until = parts_of(runtime).driver->clock().now() + std::chrono::hours(1);
  const std::vector<Place> order{gpu(1)};
  EXPECT_EQ(demote(machinery.memory, machinery.migrator, {gpu(0), 2 * chunk_bytes, until, order})
                .bytes_moved,
            chunk_bytes);
  EXPECT_EQ(runtime.where(words).at(1).at, gpu(1));
}

TEST(MigratorReach, AsksAgainUnderTheClaim) {
  RuntimeRig rig("test-islands", patient());
  std::uint64_t* words = rig.alloc(2 * chunk_bytes, gpu(0));
  const AttachedStream attached(rig.runtime(), rig.stream(0));
  Machinery& machinery = *parts_of(rig.runtime()).machinery;
  const auto allocation = machinery.memory.require(words, "test");
  // The target was chosen while the memory was at gpu(0), but the program has moved it since.
  rig.runtime().migrate(words, gpu(2));
  const MigrationTerms terms{.choice = PlaceChoice::runtime};
  MigrateOptions at_gates;
  at_gates.scope = StopScope::attached;
  const auto task = machinery.migrator.submit(allocation, {0, 2}, gpu(1), at_gates, terms);
  task->wait();
  EXPECT_EQ(kind_of_error([&] { std::rethrow_exception(task->error()); }), ErrorKind::unreachable);
  {
    const MoveClaim claim = MoveClaim::take(allocation);
    EXPECT_EQ(kind_of_error([&] {
                machinery.migrator.move(*allocation, {0, 2}, gpu(1), {}, terms);
              }),
              ErrorKind::unreachable);
  }
  EXPECT_EQ(rig.place(words), gpu(2));
  rig.runtime().migrate(words, gpu(1));
  EXPECT_EQ(rig.place(words), gpu(1)) << "where the program says, it goes";
}

}  // namespace
}  // namespace vma
