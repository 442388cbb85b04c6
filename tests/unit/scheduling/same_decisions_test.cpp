// Goal: given the same uses, a runtime and a replay make the same decisions in the same order.
// Method: one policy that records everything it is told, a scheduler stepped by hand on a simulated
// machine, and a replay scheduler with the same machine, memory, uses and times.

#include "base/units.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::uint32_t cold_chunks = 8, hot_chunks = 8, new_chunks = 3;
constexpr std::uint64_t chunk_bytes = SchedulerRig::chunk_bytes;
constexpr PlaceId gpu_0{0};

/// What the policy was told and what was decided, in order.
struct Log {
  std::vector<std::string> told, started;
  std::map<std::string, std::uint64_t> refused;
};

/// Wants each used chunk at its user in exchange for a cold one; the first has the highest value.
class NotesAll : public Policy {
 public:
  struct Seen {
    std::vector<std::string> told;
    std::optional<MachineCosts> costs;
    std::vector<PlaceState> places;
  };
  explicit NotesAll(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override {
    seen_->costs = snapshot.costs();
    seen_->places.assign(snapshot.places().begin(), snapshot.places().end());
    seen_->told.push_back(
        fmt::format("use {} by {}: {}", index(use.chunk), index(use.device), use.bytes()));
    const ChunkRow& row = snapshot.chunk(use.chunk);
    if (row.at == use.device || row.moving) return;
    if (victim_ < cold_chunks)
      plan.evict(ChunkId{victim_++}, PlaceId{static_cast<std::uint8_t>(snapshot.costs().gpus())},
                 "cold");
    plan.move(use.chunk, use.device, --value_, "used");
  }
  void on_result(const MoveResult& result, const Snapshot&) override {
    seen_->told.push_back(fmt::format("{} from {} to {}: {}", index(result.chunk),
                                      index(result.from), index(result.to), result.moved));
  }
  void on_alloc(const AllocRequest& request, const Snapshot&, std::span<PlaceId> places) override {
    seen_->told.push_back(
        fmt::format("{} bytes for {}, {}", request.bytes, index(request.device), request.tag));
    for (const PlaceId at : places) seen_->told.push_back(fmt::format("at {}", index(at)));
  }
  void on_gone(ChunkId chunk) override {
    seen_->told.push_back(fmt::format("gone {}", index(chunk)));
  }

 private:
  const std::shared_ptr<Seen> seen_;
  std::uint32_t victim_ = 0;
  double value_ = 1000;
};

/// Not in the order of chunks, with two chunks repeated.
constexpr std::uint32_t used_chunks[] = {12, 9, 15, 8, 12, 10, 14, 11, 13, 9};

using Seen = std::shared_ptr<NotesAll::Seen>;

Log of_runtime(const Seen& seen) {
  PolicyKind kind;
  kind.name = "notes_all";
  kind.make = [&](const PolicyValues&) { return std::make_unique<NotesAll>(seen); };
  RuntimeOptions options;
  options.policies = {kind};
  SchedulerRig rig("notes_all", "test-2", options);
  std::uint64_t* words = rig.alloc(cold_chunks + hot_chunks, host(0));
  rig.runtime().migrate(words, 0, cold_chunks * chunk_bytes, gpu(0));
  rig.scheduler().set_capacity(gpu(0), cold_chunks * chunk_bytes);
  rig.pass(std::chrono::seconds(10));  // They have been there for a while.
  for (const std::uint32_t chunk : used_chunks) rig.use(words, chunk, 0);
  rig.step();
  // It is too early to act on this use; the policy is first told what has ended.
  rig.use(words, 0, 0);
  rig.step();
  void* const later = rig.runtime().alloc(new_chunks * chunk_bytes, {chunk_bytes, "later"});
  rig.step();
  rig.runtime().free(later);
  rig.use(words, 1, 0);
  rig.step();
  Log log;
  log.told = seen->told;
  for (const Decision& decision :
       rig.scheduler().decisions_about(address_of(words), std::nullopt)) {
    if (decision.kind == DecisionKind::started)
      log.started.push_back(fmt::format("{} to {}", decision.chunk->slot, to_string(*decision.to)));
  }
  log.refused = rig.runtime().scheduler_stats().moves_refused;
  return log;
}

/// On a machine with the costs and places that the runtime's policy saw.
Log of_replay(const Seen& machine) {
  const auto seen = std::make_shared<NotesAll::Seen>();
  std::vector<PlaceState> places = machine->places;
  for (PlaceState& place : places) place.used_bytes = 0;
  ReplayScheduler scheduler(places, *machine->costs, {}, std::make_unique<NotesAll>(seen));
  const PlaceId host_0{static_cast<std::uint8_t>(machine->costs->gpus())};
  std::vector<ChunkTables::NewChunk> chunks(cold_chunks, {chunk_bytes, gpu_0});
  chunks.resize(cold_chunks + hot_chunks, {chunk_bytes, host_0});
  scheduler.tables().add(1, "", chunks);
  const auto use = [&](std::uint32_t chunk) {
    scheduler.use(ChunkId{chunk}, gpu_0, static_cast<double>(chunk_bytes) * 1e9F, 0);
  };
  Log log;
  const auto step = [&] {
    scheduler.collect();
    scheduler.tick();
    std::vector<AcceptedMove> under_way = scheduler.take_ready();
    for (std::size_t i = 0; i < under_way.size(); ++i) {
      const AcceptedMove move = under_way[i];
      log.started.push_back(
          fmt::format("{} to {}", index(move.chunk), to_string(places[index(move.to)].place)));
      scheduler.end(move, true, Time(1), Time(0));
      for (AcceptedMove& next : scheduler.take_ready()) under_way.push_back(std::move(next));
    }
  };
  scheduler.set_now(std::chrono::seconds(10));
  for (const std::uint32_t chunk : used_chunks) use(chunk);
  step();
  use(0);
  step();
  const std::vector<std::uint64_t> sizes(new_chunks, chunk_bytes);
  const std::vector<PlaceId> homes =
      scheduler.place({new_chunks * chunk_bytes, chunk_bytes, gpu_0, "later"}, sizes);
  std::vector<ChunkTables::NewChunk> later;
  for (const PlaceId home : homes) later.push_back({chunk_bytes, home});
  const ChunkId first = scheduler.tables().add(2, "later", later);
  step();
  scheduler.remove(first, new_chunks);
  use(1);
  step();
  log.told = seen->told;
  log.refused = scheduler.counters().moves_refused;
  return log;
}

TEST(SameDecisions, OfARuntimeAndAReplayThatAreToldTheSame) {
  const auto seen = std::make_shared<NotesAll::Seen>();
  const Log runtime = of_runtime(seen);
  ASSERT_TRUE(seen->costs.has_value());
  const Log replay = of_replay(seen);
  EXPECT_EQ(runtime.started.size(), cold_chunks + hot_chunks);
  EXPECT_EQ(runtime.told, replay.told);
  EXPECT_TRUE(std::ranges::count(runtime.told, fmt::format("gone {}", cold_chunks + hot_chunks)));
  EXPECT_EQ(runtime.started, replay.started);
  EXPECT_EQ(runtime.refused, replay.refused);
}

}  // namespace
}  // namespace vma
