// Goal: given the same uses, hints, allocations, frees, ticks and ends of moves, a policy is told
// the same by the runtime as by a replay, plans the same, and the same moves begin in the same
// order.
// Method: random programs run on a simulated runtime whose scheduler is stepped by hand, around a
// policy that writes down all that it is asked and answers. A replay's scheduler gets the same
// program, with what the real moves and the clock did: when moves ended, how long they took, and
// the costs that the runtime has learned from that.

#include "lab/replay/replay_scheduler.hpp"
#include "support/test_run.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"
#include "unit/scheduling/random_program.hpp"
#include "unit/scheduling/witness.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t each_bytes = SchedulerRig::chunk_bytes;
constexpr std::uint64_t gpu_chunks = 12;  // Room at each GPU.

// --- The runtime

/// What the real machine did at a step.
struct Happened {
  Time now{0};                      // When it began.
  std::vector<Place> homes;         // Of an allocation.
  std::vector<Decision> decisions;  // Moves that began and ended.
  std::optional<MachineCosts> costs;
};

struct Record {
  std::vector<PlaceState> places;  // At the beginning, empty.
  std::vector<Happened> happened;  // One a step.
  std::map<std::string, std::uint64_t> refused;
  std::size_t moves = 0;
  bool disturbed = false;  // The clock ran beside a report: nobody knows which time it got.
};

class RuntimeRun {
 public:
  RuntimeRun(const std::string& policy, std::shared_ptr<Transcript> transcript)
      : transcript_(std::move(transcript)), rig_("witness", "test-2", with(policy)) {
    for (const Place at : {gpu(0), gpu(1)})
      rig_.scheduler().set_capacity(at, gpu_chunks * each_bytes);
    record_.places = rig_.scheduler().places();
  }

  Record run(const std::vector<ProgramStep>& steps) {
    for (const ProgramStep& step : steps) {
      Happened happened;
      parts_of(rig_.runtime()).machinery->memory.chunks().slow_calls().await_empty();
      happened.now = rig_.machine().clock().now();
      transcript_->now.reset();
      transcript_->costs.reset();
      carry_out(step, happened);
      const bool looks = step.kind == ProgramStep::Kind::collect ||
                         step.kind == ProgramStep::Kind::tick ||
                         step.kind == ProgramStep::Kind::press;
      const bool reports =
          step.kind == ProgramStep::Kind::use || step.kind == ProgramStep::Kind::hint;
      if (reports && rig_.machine().clock().now() != happened.now) record_.disturbed = true;
      if (looks) settle();
      // The clock may run on until the scheduler looks, as memory is given back.
      happened.now = transcript_->now.value_or(happened.now);
      happened.costs = transcript_->costs;
      happened.decisions = decisions();
      if (step.kind == ProgramStep::Kind::free) {
        rig_.runtime().free(objects_[step.object]);
        objects_[step.object] = nullptr;
      }
      record_.happened.push_back(std::move(happened));
    }
    const SchedulerStats stats = rig_.runtime().scheduler_stats();
    record_.refused = stats.moves_refused;
    record_.moves = stats.moves_done;
    return std::move(record_);
  }

 private:
  RuntimeOptions with(const std::string& policy) {
    PolicyKind kind;
    kind.name = "witness";
    kind.make = [policy, to = transcript_](const PolicyValues&) {
      return std::make_unique<Witness>(policy, to);
    };
    RuntimeOptions options;
    options.policies = {kind};
    // Moves that are prepared, and memory that is given back later, would take time while nothing
    // waits for it.
    options.prepare = false;
    options.cache_bytes_per_gpu = options.host_cache_bytes = std::size_t{32} << 20;
    return options;
  }
  void carry_out(const ProgramStep& step, Happened& happened) {
    switch (step.kind) {
      case ProgramStep::Kind::alloc: objects_.push_back(rig_.alloc(step.chunks, step.at)); break;
      case ProgramStep::Kind::place:
        objects_.push_back(static_cast<std::uint64_t*>(
            rig_.runtime().alloc(step.chunks * each_bytes, {each_bytes, "own"})));
        break;
      case ProgramStep::Kind::use:
        rig_.use(objects_[step.object], step.chunk, step.at.ordinal,
                 static_cast<float>(step.passes));
        break;
      case ProgramStep::Kind::hint:
        rig_.runtime().advise(objects_[step.object] + step.chunk * each_bytes / 8,
                              step.chunks * each_bytes, step.hint);
        break;
      case ProgramStep::Kind::pass: rig_.pass(step.time); break;
      case ProgramStep::Kind::collect: rig_.scheduler().collect(); break;
      case ProgramStep::Kind::tick: rig_.scheduler().tick(); break;
      case ProgramStep::Kind::press:
        rig_.scheduler().make_room(step.at, step.chunks * each_bytes, rig_.machine().clock().now());
        break;
      case ProgramStep::Kind::free: break;  // Once its decisions are known.
    }
    if (step.kind == ProgramStep::Kind::alloc || step.kind == ProgramStep::Kind::place)
      for (std::uint64_t chunk = 0; chunk < step.chunks; ++chunk)
        happened.homes.push_back(rig_.place(objects_.back(), chunk));
  }
  /// Until no move is in progress or can begin. Looks while none is: otherwise it would see a part
  /// of a migration.
  void settle() {
    const auto idle = [&] {
      const MigrationWorkers::Load load = parts_of(rig_.runtime()).machinery->migrator.load();
      return load.running + load.waiting == 0;
    };
    EXPECT_TRUE(comes_true([&] {
      if (!idle()) return false;
      const std::uint64_t before = rig_.runtime().scheduler_stats().moves_started;
      rig_.scheduler().collect();
      const SchedulerStats after = rig_.runtime().scheduler_stats();
      return after.moves_started == before &&
             after.moves_started == after.moves_done + after.moves_failed;
    }));
  }
  std::vector<Decision> decisions() {
    std::vector<Decision> all;
    for (const std::uint64_t* const words : objects_) {
      if (words == nullptr) continue;
      for (Decision& decision : rig_.scheduler().decisions_about(address_of(words), std::nullopt)) {
        const bool is_move = decision.kind == DecisionKind::started ||
                             decision.kind == DecisionKind::moved ||
                             decision.kind == DecisionKind::not_moved;
        if (decision.sequence > seen_ && is_move) all.push_back(std::move(decision));
      }
    }
    std::ranges::sort(all, {}, &Decision::sequence);
    if (!all.empty()) seen_ = all.back().sequence;
    return all;
  }

  const std::shared_ptr<Transcript> transcript_;
  SchedulerRig rig_;
  std::vector<std::uint64_t*> objects_;
  std::uint64_t seen_ = 0;  // The last decision.
  Record record_;
};

// --- The lab

class ReplayRun {
 public:
  ReplayRun(const std::string& policy, const Record& record, const MachineCosts& costs,
            std::shared_ptr<Transcript> transcript)
      : record_(record),
        scheduler_(record.places, costs, {},
                   std::make_unique<Witness>(policy, std::move(transcript))) {}

  std::map<std::string, std::uint64_t> run(const std::vector<ProgramStep>& steps) {
    for (std::size_t step = 0; step < steps.size(); ++step) {
      SCOPED_TRACE(fmt::format("step {}", step));
      carry_out(steps[step], record_.happened[step]);
      if (testing::Test::HasFatalFailure()) break;
    }
    return scheduler_.counters().moves_refused;
  }

 private:
  struct Object {
    std::uint32_t number = 0;  // Of the runtime, from 1 on.
    ChunkId first{};
    std::size_t chunks = 0;
  };

  ChunkId chunk(const ProgramStep& step, std::uint64_t more = 0) const {
    return ChunkId{
        static_cast<std::uint32_t>(index(objects_[step.object].first) + step.chunk + more)};
  }
  PlaceId place_of(Place at) const {
    return PlaceId{static_cast<std::uint8_t>(
        std::ranges::find(record_.places, at, &PlaceState::place) - record_.places.begin())};
  }
  void carry_out(const ProgramStep& step, const Happened& happened) {
    scheduler_.set_now(happened.now);
    if (happened.costs) scheduler_.tables().costs() = *happened.costs;
    switch (step.kind) {
      case ProgramStep::Kind::place: place(step, happened); [[fallthrough]];
      case ProgramStep::Kind::alloc: wait_for_books(happened.homes, step.kind); break;
      case ProgramStep::Kind::free: freed_.push_back(step.object); break;
      case ProgramStep::Kind::use:
      case ProgramStep::Kind::hint: reports_.emplace_back(happened.now, step); break;
      case ProgramStep::Kind::pass: break;
      case ProgramStep::Kind::collect:
        enter();
        take();
        report(happened.now);
        if (scheduler_.has_uses() || scheduler_.has_hints()) scheduler_.collect();
        break;
      case ProgramStep::Kind::tick:
        enter();
        take();
        scheduler_.tick();
        break;
      case ProgramStep::Kind::press:
        enter();
        scheduler_.press({place_of(step.at), step.chunks * each_bytes, place_of(step.at)});
        break;
    }
    take();
    follow(happened.decisions);
  }
  void place(const ProgramStep& step, const Happened& happened) {
    enter();
    const std::vector<std::uint64_t> sizes(step.chunks, each_bytes);
    const std::vector<PlaceId> places =
        scheduler_.place({step.chunks * each_bytes, each_bytes, PlaceId{0}, "own"}, sizes);
    ASSERT_EQ(places.size(), happened.homes.size());
    for (std::size_t i = 0; i < places.size(); ++i)
      EXPECT_EQ(places[i], place_of(happened.homes[i]));
  }
  /// A scheduler learns of allocations and frees when it next looks.
  void wait_for_books(const std::vector<Place>& homes, ProgramStep::Kind kind) {
    made_.push_back({{}, kind == ProgramStep::Kind::place ? "own" : ""});
    for (const Place home : homes) made_.back().first.push_back({each_bytes, place_of(home)});
    objects_.push_back({++last_number_, ChunkId{}, homes.size()});
  }
  void enter() {
    for (const std::size_t object : std::exchange(freed_, {}))
      scheduler_.remove(objects_[object].first, objects_[object].chunks);
    for (const auto& [chunks, tag] : std::exchange(made_, {})) {
      Object& object = objects_[entered_++];
      object.first = scheduler_.tables().add(object.number, tag, chunks);
    }
  }
  /// What programs have reported since the last drain, now that the books have its memory.
  void report(Time now) {
    for (const auto& [given, step] : std::exchange(reports_, {})) {
      scheduler_.set_now(given);
      if (step.kind == ProgramStep::Kind::use) {
        const double bytes = static_cast<double>(each_bytes) * step.passes;
        scheduler_.use(chunk(step), place_of(step.at), bytes, 0);
        continue;
      }
      for (std::uint64_t more = 0; more < step.chunks; ++more)
        scheduler_.hint(chunk(step, more), place_of(step.hint.device), step.hint);
    }
    scheduler_.set_now(now);
  }
  void take() {
    for (AcceptedMove& move : scheduler_.take_ready()) ready_.push_back(std::move(move));
  }
  /// Moves begin as in the runtime, and end when its moves did.
  void follow(const std::vector<Decision>& decisions) {
    for (const Decision& decision : decisions) {
      scheduler_.set_now(decision.time);
      const auto object = std::ranges::find(objects_, decision.chunk->allocation, &Object::number);
      ASSERT_NE(object, objects_.end());
      const ChunkId chunk{static_cast<std::uint32_t>(index(object->first) + decision.chunk->slot)};
      if (decision.kind == DecisionKind::started) {
        if (ready_.empty()) take();
        ASSERT_FALSE(ready_.empty()) << "only the runtime begins to move " << index(chunk);
        ASSERT_EQ(ready_.front().chunk, chunk);
        EXPECT_EQ(ready_.front().to, place_of(*decision.to));
        under_way_.push_back(ready_.front());
        ready_.pop_front();
        continue;
      }
      const auto move = std::ranges::find(under_way_, chunk, &AcceptedMove::chunk);
      ASSERT_NE(move, under_way_.end());
      const MoveTimes took = decision.happened.value_or(MoveTimes{});
      scheduler_.end(*move, decision.kind == DecisionKind::moved, took.move, took.stall);
      under_way_.erase(move);
    }
    EXPECT_TRUE(ready_.empty()) << "only the lab begins to move " << index(ready_.front().chunk);
    EXPECT_TRUE(under_way_.empty());
  }

  const Record& record_;
  ReplayScheduler scheduler_;
  std::vector<Object> objects_;
  std::uint32_t last_number_ = 0;
  std::size_t entered_ = 0;  // Objects that are in the books.
  std::vector<std::pair<std::vector<ChunkTables::NewChunk>, std::string>> made_;
  std::vector<std::size_t> freed_;
  std::vector<std::pair<Time, ProgramStep>> reports_;
  std::deque<AcceptedMove> ready_;  // The lab has begun them.
  std::vector<AcceptedMove> under_way_;
};

class SamePlans : public testing::TestWithParam<std::string> {};

TEST_P(SamePlans, OfARuntimeAndAReplayThatAreToldTheSame) {
  std::size_t moves = 0, hints = 0;
  for (int program = 0; program < sampled(6); ++program) {
    const std::uint64_t seed = run_seed() + static_cast<std::uint64_t>(program);
    SCOPED_TRACE(fmt::format("VMART_SEED={}", seed));
    const std::vector<ProgramStep> steps = RandomProgram(seed).steps();
    auto here = std::make_shared<Transcript>();
    const auto there = std::make_shared<Transcript>();
    Record record = RuntimeRun(GetParam(), here).run(steps);
    for (int again = 0; record.disturbed && again < 20; ++again) {
      here = std::make_shared<Transcript>();
      record = RuntimeRun(GetParam(), here).run(steps);
    }
    ASSERT_FALSE(record.disturbed);
    const auto first = std::ranges::find_if(
        record.happened, [](const Happened& one) { return one.costs.has_value(); });
    ASSERT_NE(first, record.happened.end());
    const auto refused = ReplayRun(GetParam(), record, *first->costs, there).run(steps);
    ASSERT_FALSE(HasFatalFailure());
    const auto [one, other] = std::ranges::mismatch(here->lines, there->lines);
    if (one != here->lines.end() && other != there->lines.end()) {
      ASSERT_EQ(*one, *other) << "line " << one - here->lines.begin();
    }
    ASSERT_EQ(here->lines.size(), there->lines.size());
    EXPECT_EQ(record.refused, refused);
    moves += record.moves;
    hints += here->hints;
  }
  EXPECT_GT(moves, 20u);
  EXPECT_GT(hints, 100u);
}

INSTANTIATE_TEST_SUITE_P(Policies, SamePlans,
                         testing::Values("cost_benefit", "auto", "counter", "latency_balance",
                                         "two_touch", "watermark_age", "repeating+cost_benefit"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace vma
