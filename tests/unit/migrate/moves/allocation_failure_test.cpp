// Goal: whichever allocation of the migrator's threads fails, and whichever thread cannot be
// started, the process survives, each migration ends as done or with a typed error, hooks that
// heard the beginning of a move hear its end, no byte is lost and the books agree. Method: replaces
// operator new, which fails the n-th allocation of the migrator's and the callbacks' threads, or
// all from the n-th on, for every n; an executor of the test provides the threads.
#include "support/failing_memory.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

enum class Which { none, one, all_from };

bool is_refused();

struct Failures {
  Failures() { allocation_fails = is_refused; }
  std::atomic<Which> mode{Which::none};
  std::atomic<long> number{0}, seen{0}, failed{0};
  bool fails() {
    const Which now = mode;
    if (now == Which::none) return false;
    const long n = ++seen;
    if (now == Which::one ? n != number : n < number) return false;
    ++failed;
    return true;
  }
} failures;

thread_local bool under_test = false;  // Whether this is a thread of the migrator.

bool is_refused() {
  return under_test && failures.fails();
}

/// Marks the migrator's threads, and fails to start threads with a refused name.
class TestExecutor : public Executor {
 public:
  explicit TestExecutor(Executor& inner) : inner_(inner) {}
  std::unique_ptr<Task> spawn(const std::string& name, std::function<void()> body) override {
    const Spared spare;
    if (!refused.empty() && name.starts_with(refused)) {
      throw Error(ErrorKind::busy, "pthread_create", "no thread for " + name);
    }
    const bool marked = name.starts_with("vmart moves") || name.starts_with("vmart callback");
    return inner_.spawn(name, [marked, run = std::move(body)] {
      under_test = marked;
      run();
      under_test = false;
    });
  }
  std::string refused;

 private:
  Executor& inner_;
};

/// Allocations of the simulated machine do not fail, nor those of releases, which would be counted
/// as leaks.
class TestDriver : public InterceptDriver {
 public:
  explicit TestDriver(Driver& inner) : InterceptDriver(inner), executor_(inner.executor()) {}
  TestExecutor& executor() override { return executor_; }

  void unmap(Address begin, std::uint64_t size_bytes) override {
    const Spared spare;
    inner().unmap(begin, size_bytes);
  }
  void map(Address begin, std::uint64_t size_bytes, ChunkHandle chunk) override {
    const Spared spare;
    inner().map(begin, size_bytes, chunk);
  }
  void grant(Address begin, std::uint64_t size_bytes,
             std::span<const Accessor> accessors) override {
    const Spared spare;
    inner().grant(begin, size_bytes, accessors);
  }
  void release(ChunkHandle chunk) override {
    const Spared spare;
    inner().release(chunk);
  }
  void unreserve(Address begin, std::uint64_t size_bytes) override {
    const Spared spare;
    inner().unreserve(begin, size_bytes);
  }
  void destroy_event(EventHandle event) override {
    const Spared spare;
    inner().destroy_event(event);
  }
  void destroy_stream(BoundStream stream) override {
    const Spared spare;
    inner().destroy_stream(stream);
  }
  void destroy_exec_graph(ExecGraphHandle graph) override {
    const Spared spare;
    inner().destroy_exec_graph(graph);
  }
  void destroy_context(ContextHandle context) override {
    const Spared spare;
    inner().destroy_context(context);
  }
  void release_primary(DeviceId device) override {
    const Spared spare;
    inner().release_primary(device);
  }
  void unload_kernel(KernelHandle kernel) override {
    const Spared spare;
    inner().unload_kernel(kernel);
  }
  void free_pinned(ContextHandle context, void* pointer) override {
    const Spared spare;
    inner().free_pinned(context, pointer);
  }

 private:
  void around(Call, const std::function<void()>& body) override {
    const Spared spare;
    body();
  }
  TestExecutor executor_;
};

struct WantRig {
  WantRig()
      : driver(static_cast<Driver&>(rig.driver())),
        stream(rig.new_stream(0)),
        memory(driver, rig.topology(), {}),
        engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
               memory.chunks().slow_calls().turn()),
        migrator(memory, engine, limits()) {
    migrator.attached().attach(stream, Address{});
    AllocOptions chunks;
    chunks.chunk_bytes = 4 * rig.page();
    allocation = memory.alloc(12 * rig.page(), gpu(0), chunks);
    rig.fill(*allocation, 5);
    allocation->hooks().add({[this](const MoveEvent&) { ++begun; },
                             [this](const MoveEvent& event) {
                               ++ended;
                               moved += event.moved ? 1 : 0;
                             }});
  }
  ~WantRig() {
    failures.mode = Which::none;
    migrator.finish();
    migrator.attached().detach(stream, Address{});
    memory.free(allocation->begin());
    // Chunks that could not be tracked.
    if (memory.chunks().ledger().leaks() > 0)
      rig.memory().chunks().ledger().leaked("what the other memory leaked");
  }
  static MigratorLimits limits() {
    MigratorLimits limits;
    // Long enough for a busy computer.
    limits.hold_limit = limits.gate_limit = std::chrono::seconds(20);
    return limits;
  }
  std::shared_ptr<MigrationTask> submit(Place to, StopScope scope) {
    MigrateOptions options;
    options.scope = scope;
    options.on_progress = [this](const MigrationProgress&) { ++told; };
    return migrator.submit(allocation, {0, allocation->geometry().slots}, to, options);
  }
  int chunks_at(Place at) {
    int count = 0;
    for (std::size_t slot = 0; slot < allocation->geometry().slots; ++slot)
      count += allocation->place(slot) == at ? 1 : 0;
    return count;
  }
  /// Moves while the n-th allocation fails, then once more without failures. False if there were
  /// fewer than n allocations.
  bool moves_beside(Which mode, long number, StopScope scope) {
    const Place to = chunks_at(gpu(0)) > 0 ? gpu(1) : gpu(0);
    const int there = chunks_at(to);
    failures.seen = failures.failed = 0;
    failures.number = number;
    failures.mode = mode;
    const auto task = submit(to, scope);
    std::atomic<bool> called{false};
    task->on_done([&] { called = true; });
    EXPECT_TRUE(task->wait_for(std::chrono::hours(1)));
    failures.mode = Which::none;
    EXPECT_TRUE(comes_true([&] { return called.load(); }));
    const bool fired = failures.failed > 0;
    const MigrationReport report = task->report();
    EXPECT_EQ(chunks_at(to) - there, report.chunks_moved);
    if (report.outcome == Outcome::done) {
      EXPECT_EQ(task->error(), nullptr);
    } else {
      EXPECT_TRUE(fired);
      EXPECT_NE(task->error(), nullptr);
      try {
        if (task->error()) std::rethrow_exception(task->error());
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::poisoned) << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
    EXPECT_EQ(begun, ended) << "hooks";
    EXPECT_EQ(rig.wrong(*allocation, 5), 0u);
    const auto again = submit(to, scope);
    EXPECT_TRUE(again->wait_for(std::chrono::hours(1)));
    EXPECT_EQ(chunks_at(to), static_cast<int>(allocation->geometry().slots))
        << (again->error() ? "it failed" : "");
    check_settled(memory);
    return fired;
  }

  MoveRig rig;
  TestDriver driver;
  const BoundStream stream;
  Memory memory;
  CopyEngine engine;
  Migrator migrator;
  std::shared_ptr<Allocation> allocation;
  std::atomic<int> begun{0}, ended{0}, moved{0}, told{0};
};

class MoveAllocationFailure : public testing::TestWithParam<std::pair<Which, StopScope>> {};
INSTANTIATE_TEST_SUITE_P(All, MoveAllocationFailure,
                         testing::Values(std::pair{Which::one, StopScope::attached},
                                         std::pair{Which::all_from, StopScope::attached},
                                         std::pair{Which::one, StopScope::hold},
                                         std::pair{Which::all_from, StopScope::hold}));

TEST_P(MoveAllocationFailure, EndEachMoveWhereTheMachineryIsThere) {
  WantRig rig;
  rig.moves_beside(Which::none, 0, GetParam().second);
  rig.moves_beside(Which::none, 0, GetParam().second);
  long number = 1;
  int in_vain = 0;  // Another order of threads allocates slightly more or less.
  for (; in_vain < 3 && number < 5'000; ++number) {
    SCOPED_TRACE(testing::Message() << "allocation " << number);
    const bool fired = rig.moves_beside(GetParam().first, number, GetParam().second);
    in_vain = fired ? 0 : in_vain + 1;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(number, 20) << "moves do allocate";
}

TEST_P(MoveAllocationFailure, EndTheFirstMove) {
  constexpr long stride = 9;  // The first move makes many allocations; a sample of them suffices.
  for (long number = 1;; number += stride) {
    SCOPED_TRACE(testing::Message() << "allocation " << number);
    WantRig rig;
    if (!rig.moves_beside(GetParam().first, number, GetParam().second)) break;
    if (testing::Test::HasFailure()) return;
  }
}

/// Allocations without hooks that move as a group.
struct GroupRig : WantRig {
  static constexpr std::uint64_t many = 3;

  GroupRig() {
    for (std::uint64_t i = 0; i < many; ++i) {
      all.push_back(memory.alloc(4 * rig.page(), gpu(0), {}));
      rig.fill(*all.back(), i << 20);
    }
  }
  ~GroupRig() {
    failures.mode = Which::none;
    for (const auto& each : all) memory.free(each->begin());
  }
  std::vector<std::shared_ptr<MigrationTask>> submit_all(Place to, StopScope scope) {
    account = std::make_shared<GroupAccount>(driver.clock(), std::vector<MigrationProgress>(many),
                                             [this](const MigrationProgress&) { ++told; });
    std::vector<NewMigration> migrations;
    for (std::size_t i = 0; i < many; ++i) {
      MigrateOptions options;
      options.scope = scope;
      options.on_progress = account->progress_of(i);
      migrations.push_back({whole(all[i], to), options, {}, account, std::nullopt});
    }
    return migrator.submit_all(std::move(migrations));
  }
  /// Moves all while the n-th allocation fails, then once more. False if there were fewer than n.
  bool moves_all_beside(Which mode, long number, StopScope scope) {
    const Place to = all[0]->place(0) == gpu(0) ? gpu(1) : gpu(0);
    failures.seen = failures.failed = 0;
    failures.number = number;
    failures.mode = mode;
    const auto tasks = submit_all(to, scope);
    for (const auto& task : tasks) EXPECT_TRUE(task->wait_for(std::chrono::hours(1)));
    failures.mode = Which::none;
    const bool fired = failures.failed > 0;
    for (std::size_t i = 0; i < many; ++i) {
      const MigrationReport report = tasks[i]->report();
      EXPECT_EQ(report.outcome == Outcome::done, tasks[i]->error() == nullptr);
      EXPECT_TRUE(fired || report.outcome == Outcome::done);
      EXPECT_EQ(all[i]->place(0) == to, report.chunks_moved == 1);
      EXPECT_EQ(rig.wrong(*all[i], i << 20), 0u);
    }
    for (const auto& task : submit_all(to, scope))
      EXPECT_TRUE(task->wait_for(std::chrono::hours(1)));
    for (const auto& each : all) EXPECT_EQ(each->place(0), to);
    check_settled(memory);
    return fired;
  }

  std::vector<std::shared_ptr<Allocation>> all;
  std::shared_ptr<GroupAccount> account;
};

TEST_P(MoveAllocationFailure, EndEachMoveOfAGroup) {
  GroupRig rig;
  for (int i = 0; i < 2; ++i) rig.moves_all_beside(Which::none, 0, GetParam().second);
  long number = 1;
  int in_vain = 0;
  for (; in_vain < 3 && number < 5'000; ++number) {
    SCOPED_TRACE(testing::Message() << "allocation " << number);
    const bool fired = rig.moves_all_beside(GetParam().first, number, GetParam().second);
    in_vain = fired ? 0 : in_vain + 1;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(number, 20) << "moves do allocate";
}

// A group that cannot be queued as a whole is not queued at all.
TEST(SubmitAllocationFailure, QueuesAllOrNone) {
  GroupRig rig;
  rig.moves_all_beside(Which::none, 0, StopScope::hold);
  for (long number = 1;; ++number) {
    SCOPED_TRACE(testing::Message() << "allocation " << number);
    // They cannot be taken from the queue.
    for (const auto& each : rig.all) each->begin_move();
    failures.seen = failures.failed = 0;
    failures.number = number;
    failures.mode = Which::one;
    std::vector<std::shared_ptr<MigrationTask>> tasks;
    under_test = true;
    try {
      tasks = rig.submit_all(gpu(0), StopScope::hold);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(failures.failed, 1);
    }
    under_test = false;
    failures.mode = Which::none;
    EXPECT_EQ(rig.migrator.load().waiting, tasks.size());
    for (const auto& each : rig.all) each->end_move();
    for (const auto& task : tasks) task->wait();
    for (const auto& each : rig.all) EXPECT_EQ(each->place(0), tasks.empty() ? gpu(1) : gpu(0));
    if (!tasks.empty()) break;
  }
}

TEST(ThreadStartFailure, IsToldToWhoAsksForTheMove) {
  WantRig rig;
  rig.driver.executor().refused = "vmart moves";
  expect_error(ErrorKind::busy, [&] { rig.submit(gpu(1), StopScope::attached); });
  rig.driver.executor().refused.clear();
  EXPECT_FALSE(rig.moves_beside(Which::none, 0, StopScope::attached));
}

TEST(ThreadStartFailure, LetsOneWorkerDoWhatSeveralWould) {
  WantRig rig;
  rig.driver.executor().refused = "vmart moves 1";
  const auto other = rig.memory.alloc(rig.rig.page(), gpu(0), {});
  const auto one = rig.submit(gpu(1), StopScope::attached);
  const auto two = rig.migrator.submit(other, {0, 1}, gpu(1), {});
  one->wait();
  two->wait();
  EXPECT_EQ(one->error(), nullptr);
  EXPECT_EQ(two->error(), nullptr);
  rig.memory.free(other->begin());
}

TEST(ThreadStartFailure, FailsTheCallThatWantsACallbackAndNotTheMove) {
  WantRig rig;
  rig.driver.executor().refused = "vmart callback";
  // Because of on_progress.
  expect_error(ErrorKind::busy, [&] { rig.submit(gpu(1), StopScope::attached); });
  const auto task = rig.migrator.submit(rig.allocation, {0, 3}, gpu(1), {});
  expect_error(ErrorKind::busy, [&] { task->on_done([] {}); });
  task->wait();
  EXPECT_EQ(task->error(), nullptr);
  rig.driver.executor().refused.clear();
  std::atomic<bool> called{false};
  task->on_done([&] { called = true; });
  EXPECT_TRUE(comes_true([&] { return called.load(); }));
}

}  // namespace
}  // namespace vma
