// Goal: memory requested as zeroed is all zeros when `alloc` returns, whatever moves meanwhile, and
// no other bytes change. Method: a driver that looks for the allocation while it is filled; threads
// that park, drain and move everything.
#include "support/drivers/fault_driver.hpp"
#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"
#include "support/sanitizer.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t size_bytes = 8 * chunk_bytes;

AllocOptions zeroed() {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  options.tag = "zeroed";
  options.zeroed = true;
  return options;
}

std::int64_t bytes_other_than(Runtime& runtime, const void* pointer, std::byte wanted) {
  std::vector<std::byte> bytes(size_bytes);
  runtime.read(pointer, bytes);
  return std::ranges::count_if(bytes, [=](std::byte byte) { return byte != wanted; });
}

/// Calls `filling` before each fill.
class FillDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  std::function<void()> filling;

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (call == Call::fill && filling) filling();
    body();
  }
};

TEST(Zeroed, NobodyFindsMemoryBeforeItIsZero) {
  auto driver = std::make_unique<FillDriver>(std::make_unique<SimDriver>(load_machine("test-2")));
  FillDriver& fills = *driver;
  Runtime runtime =
      runtime_of(std::make_unique<RuntimeParts>(std::move(driver), resolve_settings({})));
  int seen = 0, found = 0;
  fills.filling = [&] {
    ++seen;
    found += static_cast<int>(runtime.stats().allocations);
  };
  for (int round = 0; round < 3; ++round) {  // The later ones come from the cache.
    void* pointer = runtime.alloc(size_bytes, gpu(0), zeroed());
    EXPECT_EQ(bytes_other_than(runtime, pointer, std::byte{0}), 0);
    const std::vector<std::byte> junk(size_bytes, std::byte{0xAB});
    runtime.write(pointer, junk);
    runtime.free(pointer);
  }
  EXPECT_EQ(seen, 3) << "one fill for all chunks";
  EXPECT_EQ(found, 0);
  fills.filling = nullptr;
}

TEST(Zeroed, WhatCannotBeZeroedGoesBack) {
  auto driver = std::make_unique<FaultDriver>(std::make_unique<SimDriver>(load_machine("test-2")));
  FaultDriver& faults = *driver;
  Runtime runtime =
      runtime_of(std::make_unique<RuntimeParts>(std::move(driver), resolve_settings({})));
  faults.count_only({Call::fill});
  // Memory at the host is filled chunk by chunk, through the chunks' own mappings.
  for (const auto& [at, fills] : {std::pair{gpu(0), 1}, std::pair{host(0), 8}}) {
    for (int call = 0; call < fills; ++call) {
      faults.fail_calls({call});
      EXPECT_EQ(kind_of_error([&] { runtime.alloc(size_bytes, at, zeroed()); }),
                ErrorKind::driver_failure);
      EXPECT_EQ(faults.fired(), 1) << to_string(at) << ", fill " << call;
      EXPECT_EQ(runtime.stats().allocations, 0u);
    }
  }
  faults.fail_calls({});
  void* pointer = runtime.alloc(size_bytes, gpu(0), zeroed());
  EXPECT_EQ(bytes_other_than(runtime, pointer, std::byte{0}), 0);
  check_settled(parts_of(runtime).machinery->memory);
}

/// Runs each of the bodies repeatedly on its own thread until it is destroyed.
class Beside {
 public:
  explicit Beside(const std::vector<std::function<void()>>& bodies) {
    for (const auto& body : bodies) {
      threads_.emplace_back([this, body] {
        while (!over_) {
          try {
            body();
          } catch (const Error&) {  // Nothing has the tag, or the allocation is being freed.
          }
          ++rounds_;
        }
      });
    }
  }
  ~Beside() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  int rounds() const { return rounds_; }

 private:
  std::atomic<bool> over_{false};
  std::atomic<int> rounds_{0};
  std::vector<std::thread> threads_;
};

/// Other allocations keep their bytes while zeroed ones come and go.
void expect_zeros_beside(Runtime& runtime, const std::vector<std::function<void()>>& bodies) {
  constexpr int allocations = under_thread_sanitizer ? 20 : 60;
  const std::vector<std::byte> junk(size_bytes, std::byte{0xAB}), kept(size_bytes, std::byte{0x5A});
  void* other = runtime.alloc(size_bytes, gpu(1));
  runtime.write(other, kept);
  std::int64_t not_zero = 0, changed = 0;
  {
    const Beside beside(bodies);
    for (int i = 0; i < allocations || beside.rounds() < 10; ++i) {
      void* pointer = runtime.alloc(size_bytes, gpu(i % 2), zeroed());
      not_zero += bytes_other_than(runtime, pointer, std::byte{0});
      runtime.write(pointer, junk);
      runtime.free(pointer);
      changed += bytes_other_than(runtime, other, std::byte{0x5A});
    }
  }
  EXPECT_EQ(not_zero, 0);
  EXPECT_EQ(changed, 0);
  runtime.free(other);
}

TEST(Zeroed, BesideParking) {
  RuntimeRig rig("test-4");
  Runtime& runtime = rig.runtime();
  expect_zeros_beside(runtime,
                      {[&] { runtime.park("zeroed"); }, [&] { runtime.resume("zeroed"); }});
  rig.check_invariants();
}

/// Sends one chunk after another to the next place.
class Restless : public Policy {
 public:
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    const std::size_t chunks = snapshot.chunks().size(), places = snapshot.places().size();
    for (std::size_t i = 0; i < chunks; ++i) {
      const ChunkId chunk{static_cast<std::uint32_t>(next_++ % chunks)};
      const ChunkRow& row = snapshot.chunk(chunk);
      if (row.bytes == 0 || !row.movable || row.moving) continue;
      const PlaceId to{static_cast<std::uint8_t>((index(row.at) + 1) % places)};
      return plan.move(chunk, to, 1, "it stays nowhere");
    }
  }

 private:
  std::size_t next_ = 0;
};

TEST(Zeroed, BesideDrainsAndAPolicyThatMovesAll) {
  RuntimeOptions options = patient();
  options.policies.push_back(
      {"restless", "a test", {}, [](const PolicyValues&) { return std::make_unique<Restless>(); }});
  options.policy = "restless";
  options.tick = std::chrono::milliseconds(1);
  options.stall_budget = std::chrono::seconds(1);
  RuntimeRig rig("test-4", options);
  Runtime& runtime = rig.runtime();
  const AttachedStream attached(runtime, rig.stream(0));
  DrainOptions soon;
  soon.deadline = std::chrono::milliseconds(5);
  expect_zeros_beside(runtime, {[&] {
                                  runtime.drain(gpu(0), soon);
                                  runtime.refill(gpu(0));
                                },
                                [&] { runtime.park("zeroed"); }});
  rig.check_invariants();
}

}  // namespace
}  // namespace vma
