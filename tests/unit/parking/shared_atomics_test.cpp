// Goal: memory that several GPUs update with atomics stays where these work: neither a program nor
// a policy nor a lack of room takes it elsewhere. Method: simulated machines with and without
// native atomics on host memory.
#include "parking/demotion.hpp"
#include "runtime/runtime_parts.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace vma {
namespace {

AllocOptions with_atomics(std::uint64_t bytes = chunk_bytes) {
  AllocOptions options;
  options.chunk_bytes = bytes;
  options.shared_atomics = true;
  options.tag = "counters";
  return options;
}

class SharedAtomics : public testing::Test {
 protected:
  Runtime& runtime() { return rig_.runtime(); }
  std::uint64_t* counters() {
    void* words = runtime().alloc(2 * chunk_bytes, gpu(0), with_atomics());
    rig_.write(static_cast<std::uint64_t*>(words), count_, 3);
    return static_cast<std::uint64_t*>(words);
  }
  void expect_whole_at(const std::uint64_t* words, Place at) {
    EXPECT_EQ(rig_.place(words), at);
    EXPECT_EQ(rig_.wrong(words, count_, 3), 0u);
  }

  static constexpr std::uint64_t count_ = 2 * chunk_bytes / 8;
  RuntimeRig rig_{"test-2", patient()};
};

TEST_F(SharedAtomics, AreRefusedAtTheHostByName) {
  EXPECT_EQ(kind_of_error([&] { runtime().alloc(chunk_bytes, host(0), with_atomics()); }),
            ErrorKind::unsupported);
  std::uint64_t* words = counters();
  const AttachedStream attached(runtime(), rig_.stream(0));
  MigrateOptions gated;
  gated.scope = StopScope::attached;
  for (const auto& move :
       std::vector<std::function<void()>>{[&] { runtime().migrate(words, host(0)); },
                                          [&] { runtime().migrate(words, host(0), gated); },
                                          [&] { runtime().migrate_async(words, host(0)); }}) {
    EXPECT_EQ(kind_of_error(move), ErrorKind::unsupported);
    const std::string text = error_text(move);
    EXPECT_NE(text.find("shared_atomics"), std::string::npos) << text;
    EXPECT_NE(text.find("host(0)"), std::string::npos) << text;
  }
  expect_whole_at(words, gpu(0));
  runtime().migrate(words, gpu(1));
  expect_whole_at(words, gpu(1));
  runtime().migrate_async(words, gpu(0)).wait();
  expect_whole_at(words, gpu(0));
}

TEST_F(SharedAtomics, OfASingleReaderMayBeAtTheHost) {
  const std::vector<Place> reader{gpu(1)};
  void* words = runtime().alloc(chunk_bytes, host(0), reader, with_atomics());
  runtime().migrate(words, gpu(1));
  runtime().migrate(words, host(0));
  EXPECT_EQ(runtime().where(words).front().at, host(0));
}

TEST_F(SharedAtomics, AreNotParkedThere) {
  std::uint64_t* words = counters();
  const ParkReport report = runtime().park("counters");
  EXPECT_EQ(report.bytes_moved, 0u);
  EXPECT_FALSE(report.stayed.empty());
  expect_whole_at(words, gpu(0));
}

TEST_F(SharedAtomics, MakeNoRoomThere) {
  const AttachedStream attached(runtime(), rig_.stream(0));
  std::uint64_t* words = counters();
  std::uint64_t* plain = rig_.alloc(chunk_bytes, gpu(0));
  Machinery& machinery = *parts_of(runtime()).machinery;
  const TimePoint until = parts_of(runtime()).driver->clock().now() + std::chrono::hours(1);
  const std::vector<Place> order{host(0)};
  EXPECT_EQ(demote(machinery.memory, machinery.migrator, {gpu(0), 3 * chunk_bytes, until, order})
                .bytes_moved,
            chunk_bytes);
  EXPECT_EQ(rig_.place(plain), host(0));
  expect_whole_at(words, gpu(0));
}

TEST(SharedAtomicsOnGraceHopper, MayBeAtTheHost) {
  RuntimeRig rig("gh200x2", patient());
  constexpr std::uint64_t granule = 2 << 20;
  void* words = rig.runtime().alloc(granule, host(0), with_atomics(granule));
  rig.runtime().migrate(words, gpu(0));
  rig.runtime().migrate(words, host(0));
  EXPECT_EQ(rig.runtime().where(words).front().at, host(0));
}

/// Wants every chunk, including new ones, at the host.
class WantsHost : public Policy {
 public:
  void on_alloc(const AllocRequest&, const Snapshot&, std::span<PlaceId> chunks) override {
    for (PlaceId& chunk : chunks) chunk = host_;
  }
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    for (std::size_t i = 0; i < snapshot.chunks().size(); ++i) {
      const ChunkId chunk{static_cast<std::uint32_t>(i)};
      if (snapshot.chunk(chunk).bytes > 0) plan.move(chunk, host_, 1, "the test wants it");
    }
  }

 private:
  static constexpr PlaceId host_{2};  // Of test-2.
};

TEST(SharedAtomicsOfPolicies, StayOnGpus) {
  PolicyKind kind;
  kind.name = "wants_host";
  kind.make = [](const PolicyValues&) { return std::make_unique<WantsHost>(); };
  RuntimeOptions options;
  options.policies = {kind};
  SchedulerRig rig("wants_host", "test-2", options);
  auto* fresh = static_cast<std::uint64_t*>(rig.runtime().alloc(chunk_bytes, with_atomics()));
  EXPECT_EQ(rig.place(fresh), gpu(0));
  std::uint64_t* plain = rig.alloc(1, gpu(0));
  rig.step();
  EXPECT_EQ(rig.place(fresh), gpu(0));
  EXPECT_EQ(rig.place(plain), host(0));
  EXPECT_EQ(rig.runtime().scheduler_stats().moves_refused["unreachable"], 1u);
}

}  // namespace
}  // namespace vma
