#pragma once

#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vma {

inline constexpr std::uint64_t batch_chunks = 8;
inline constexpr std::uint64_t batch_seed_word = 700;

/// Calls a function before each unmap that is made while streams are stopped, and notes for how
/// many GPUs a grant is made meanwhile.
class UnmapDriver : public InterceptDriver {
 public:
  explicit UnmapDriver(Driver& inner) : InterceptDriver(inner) {}
  void note_stopped(int change) noexcept override {
    stopped_ += change;
    InterceptDriver::note_stopped(change);
  }
  void grant(Address begin, std::uint64_t size_bytes,
             std::span<const Accessor> accessors) override {
    if (stopped_ > 0) granted_most = std::max(granted_most, accessors.size());
    InterceptDriver::grant(begin, size_bytes, accessors);
  }
  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override {
    launched_last = stream;
    InterceptDriver::launch(stream, kernel, shape, arguments);
  }
  void launch_graph(BoundStream stream, ExecGraphHandle graph) override {
    launched_last = stream;
    InterceptDriver::launch_graph(stream, graph);
  }
  /// `stopped`: work of the program is.
  std::function<void(Call call, bool stopped)> before_call;
  /// `number` counts from 1.
  std::function<void(int number)> before_unmap;
  std::size_t granted_most = 0;  ///< While streams were stopped.
  BoundStream launched_last;

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (before_call) before_call(call, stopped_ > 0);
    if (call == Call::unmap && stopped_ > 0 && before_unmap) before_unmap(++unmaps_);
    body();
  }
  int stopped_ = 0;
  int unmaps_ = 0;
};

/// All that moves, on a driver that can be disturbed, and a stream that may use all memory. It is
/// attached, unless work is suspended.
struct DisturbedRig {
  explicit DisturbedRig(const SimOptions& options, const MigratorLimits& limits = {})
      : rig("test-2", {}, options),
        stream(rig.new_stream(0)),
        driver(rig.driver()),
        memory(driver, rig.topology(), {}),
        engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
               memory.chunks().slow_calls().turn()),
        migrator(memory, engine, limits),
        attached(!limits.suspends) {
    if (attached) migrator.attached().attach(stream, Address{});
  }
  /// Requires: all memory is free.
  ~DisturbedRig() {
    if (attached) migrator.attached().detach(stream, Address{});
  }

  MoveRig rig;
  const BoundStream stream;
  UnmapDriver driver;
  Memory memory;
  CopyEngine engine;
  Migrator migrator;
  const bool attached;
};

/// An allocation of `batch_chunks` chunks at gpu(0).
struct BatchRig : DisturbedRig {
  explicit BatchRig(const SimOptions& options, const MigratorLimits& limits = {})
      : DisturbedRig(options, limits) {
    AllocOptions chunked;
    chunked.chunk_bytes = rig.page();
    allocation = memory.alloc(batch_chunks * rig.page(), gpu(0), chunked);
    rig.fill(*allocation, batch_seed_word);
  }
  ~BatchRig() {
    migrator.finish();
    memory.free(allocation->begin());
  }
  std::shared_ptr<MigrationTask> submit(Place to, std::chrono::microseconds max_stall) {
    MigrateOptions options;
    options.mode = Mode::automatic;
    options.max_stall = max_stall;
    return migrator.submit(allocation, {0, batch_chunks}, to, options);
  }
  MigrationReport move(Place to, std::chrono::microseconds max_stall) {
    const auto task = submit(to, max_stall);
    task->wait();
    if (task->error()) std::rethrow_exception(task->error());
    return task->report();
  }
  /// The first `moved` chunks lie at gpu(1), the others at gpu(0), and nothing is lost.
  void expect_moved(std::size_t moved) {
    for (std::size_t slot = 0; slot < batch_chunks; ++slot) {
      EXPECT_EQ(allocation->place(slot), gpu(slot < moved ? 1 : 0)) << "slot " << slot;
    }
    EXPECT_EQ(rig.wrong(*allocation, batch_seed_word), 0u);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.wrong_for(i, *allocation, batch_seed_word), 0u);
    memory.chunks().slow_calls().await_empty();
    memory.check_invariants();
  }

  std::shared_ptr<Allocation> allocation;
};

/// Several allocations of one chunk each at gpu(0).
struct ManyRig : DisturbedRig {
  explicit ManyRig(const SimOptions& options) : DisturbedRig(options) {
    for (std::size_t i = 0; i < batch_chunks; ++i) {
      allocations.push_back(memory.alloc(rig.page(), gpu(0), {}));
      rig.fill(*allocations[i], batch_seed_word + i);
    }
  }
  ~ManyRig() {
    migrator.finish();
    for (const auto& allocation : allocations) {
      if (allocation) memory.free(allocation->begin());
    }
  }
  void submit_all(Place to, const MigrateOptions& options = {}) {
    submit_all([to](std::size_t) { return to; }, options);
  }
  /// No target memory is created before all are submitted.
  void submit_all(const std::function<Place(std::size_t)>& to, MigrateOptions options = {}) {
    if (!options.max_stall) options.max_stall = std::chrono::milliseconds(500);
    const MutexLock nothing_created(memory.chunks().slow_calls().turn());
    for (std::size_t i = 0; i < batch_chunks; ++i) {
      tasks.push_back(migrator.submit(allocations[i], {0, 1}, to(i), options));
    }
  }
  void wait() {
    for (const auto& task : tasks) task->wait();
  }
  std::optional<ErrorKind> error(std::size_t which) {
    const std::exception_ptr error = tasks[which]->error();
    if (!error) return std::nullopt;
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      return known.kind();
    }
  }
  std::uint64_t gates() { return migrator.stats().stall().count; }
  /// All but `stayed` moved to `to`, in full; nothing is lost.
  void expect_moved(Place to, std::optional<std::size_t> stayed = std::nullopt) {
    for (std::size_t i = 0; i < batch_chunks; ++i) {
      if (!allocations[i]) continue;
      SCOPED_TRACE(i);
      EXPECT_EQ(allocations[i]->place(0), i == stayed ? gpu(0) : to);
      EXPECT_EQ(rig.wrong(*allocations[i], batch_seed_word + i), 0u);
      EXPECT_EQ(tasks[i]->report().chunks_moved, i == stayed ? 0 : 1);
      EXPECT_EQ(tasks[i]->report().outcome == Outcome::done, i != stayed);
      EXPECT_EQ(error(i).has_value(), i == stayed);
    }
    memory.chunks().slow_calls().await_empty();
    memory.check_invariants();
  }

  std::vector<std::shared_ptr<Allocation>> allocations;
  std::vector<std::shared_ptr<MigrationTask>> tasks;
};

}  // namespace vma
