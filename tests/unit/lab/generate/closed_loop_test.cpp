// Goal: the closed loops of generators and converters order all that must not happen at the same
// time, overlap what may, and take as long as their headers say when memory delays nothing.

#include "lab/generate/trace_generators.hpp"
#include "lab/trace/event_order.hpp"
#include "support/test_run.hpp"
#include "unit/lab/trace/loop_races.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace vma {
namespace {

using Found = std::vector<std::string>;

class ClosedLoops : public testing::Test {
 protected:
  std::vector<ToldEvent> make(const std::string& name, std::vector<std::string> values) {
    const std::string path = folder_ / "out.vtrace";
    audit_ = generate_trace({name, path, std::move(values), run_seed()});
    EXPECT_EQ(audit_.fault_count(), 0u);
    return read_all(path);
  }

  TemporaryFolder folder_;
  TraceAudit audit_;
};

TEST(ClosedLoop, NumbersTasksAndStartsThemWhenOthersEnd) {
  KeepingSink sink;
  EventOrder order(sink);
  ClosedLoop tasks(order);
  order.add(allocation(0, 7, 10).event);
  TraceEvent late = task_event(Time(5), TracePlace(gpu(1)));
  late.time = Time(40);
  late.bytes = 3;
  const DeclaredTask a = tasks.declare(task_event(Time(10)));
  const DeclaredTask b = tasks.declare(late, {&a, 1});
  tasks.access(access(0, 7, 10).event);
  EXPECT_EQ(b.start, Time(40));
  EXPECT_EQ(b.end, Time(55));
  const std::vector<DeclaredTask> both{a, {}, b};
  const DeclaredTask c = tasks.declare(task_event(Time(1)), both);
  EXPECT_EQ(c.start, Time(55));
  tasks.at_end(free_of(0, 7).event, c);
  order.finish();
  std::vector<ToldEvent> expected{allocation(0, 7, 10), task_of(0, 1, 10),  task_of(40, 2, 5, 3),
                                  after_of(40, 2, 1),   access(40, 7, 10),  task_of(55, 3, 1),
                                  after_of(55, 3, 1),   after_of(55, 3, 2), free_of(56, 7)};
  expected[2].event.at = expected[4].event.at = TracePlace(gpu(1));
  expected[4].event.task = 2;
  expected[8].event.task = 3;
  EXPECT_EQ(sink.events, expected);
}

TEST(LoopRaces, AreFound) {
  std::vector<ToldEvent> events{allocation(0, 1, 10), task_of(0, 1),   access(0, 1, 1),
                                task_of(0, 2),        access(0, 1, 1), free_of(0, 1)};
  events[2].event.task = 1;
  events[2].event.use = UseKind::write;
  events[4].event.task = 2;
  events[5].event.task = 2;
  EXPECT_EQ(loop_races(events), (Found{"task 2 may use object 1 before task 1",
                                       "task 2 may use object 1 before task 1"}));
  events.insert(events.begin() + 4, after_of(0, 2, 1));
  EXPECT_EQ(loop_races(events), Found{});
  events.back().event.task = 1;
  EXPECT_EQ(loop_races(events), (Found{"task 1 may use object 1 before task 2"}));
}

// A layer takes 1 ms forward and 2 ms backward; a stage has two layers. A batch of four takes as
// long as six microbatches take one stage, since the last stage begins two later; the first stage
// then changes its two weights, and all others have changed theirs.
TEST_F(ClosedLoops, AStageOfAPipelineWaitsForItsInput) {
  const std::vector<std::string> values{"stages=3",       "microbatches=4",    "layers=2",
                                        "iterations=2",   "jitter=0",          "compute_us=1000",
                                        "weight_bytes=9", "activation_bytes=5"};
  const auto events = make("pipeline", values);
  EXPECT_EQ(loop_races(events), Found{});
  EXPECT_EQ(audit_.end(), 2 * std::chrono::milliseconds(6 * (2 + 4) + 2));
  EXPECT_EQ(audit_.count(TraceEventKind::task), 2u * 3 * (4 * 2 * 2 + 2));
  EXPECT_EQ(audit_.devices(), (std::set<int>{0, 1, 2}));
  const double steps = 2 * 3 * 4 * 2;  // In one direction.
  const double inner = steps - 2 * 4;  // Those of all layers but the first.
  const double updates = 2 * 3 * 2;
  EXPECT_EQ(audit_.bytes_read(), 9 * (2 * steps + updates) + 5 * (inner + steps + inner));
  EXPECT_EQ(audit_.bytes_written(), 9 * updates + 5 * (steps + inner));
  EXPECT_EQ(audit_.bytes_live_max(), 9u * 6 + 5u * 4 * 6);
  const auto marks = std::ranges::count(events, TraceEventKind::mark,
                                        [](const ToldEvent& told) { return told.event.kind; });
  EXPECT_EQ(marks, 2);
}

// One stage waits for nobody, and without jitter its plan is exact: each hint names the next task
// that accesses the object.
TEST_F(ClosedLoops, StepsOfAPipelineAnnounceWhenTheyUseMemoryAgain) {
  const auto events = make("pipeline", {"stages=1", "microbatches=3", "layers=2", "iterations=2",
                                        "jitter=0", "compute_us=1000", "hints=1"});
  std::size_t hints = 0, last = 0;
  for (std::size_t at = 0; at < events.size(); ++at) {
    const TraceEvent& hint = events[at].event;
    if (hint.kind != TraceEventKind::hint) continue;
    ++hints;
    const auto next = std::find_if(
        events.begin() + static_cast<std::ptrdiff_t>(at), events.end(), [&](const ToldEvent& told) {
          return told.event.kind == TraceEventKind::access && told.event.object == hint.object &&
                 told.event.task != hint.task;
        });
    if (next == events.end()) {
      ++last;  // Training goes on for all that a program knows.
    } else {
      EXPECT_EQ(next->event.time - hint.time, hint.duration) << "object " << hint.object;
    }
  }
  // Each of two layers does 7 steps an iteration; the second reads activations again three times.
  EXPECT_EQ(hints, 2u * (2 * 7 + 3));
  EXPECT_EQ(last, 2u);
}

TEST_F(ClosedLoops, AProducerWaitsForARingThatIsFull) {
  const auto events = make("producer-consumer", {"length_s=0.02", "swap_s=0.01", "pairs=2",
                                                 "period_us=1000", "lag=2", "reads=4", "jitter=0"});
  EXPECT_EQ(loop_races(events), Found{});
  EXPECT_EQ(audit_.count(TraceEventKind::task), 2u * 20 * 2);
  // The last buffer is written in the 20th ms and read in the 21st.
  EXPECT_EQ(audit_.end(), std::chrono::milliseconds(21));
  std::map<int, int> writes;
  std::uint32_t write = 0;
  for (const ToldEvent& told : events) {
    const TraceEvent& event = told.event;
    if (event.kind == TraceEventKind::task) {
      EXPECT_EQ(event.duration * static_cast<std::int64_t>(event.bytes),
                std::chrono::milliseconds(1));
    }
    if (event.kind == TraceEventKind::access && event.use == UseKind::write)
      ++writes[event.at.place().ordinal];
    if (event.kind == TraceEventKind::mark) write = event.task;
  }
  EXPECT_EQ(writes, (std::map<int, int>{{0, 10}, {1, 10}, {2, 10}, {3, 10}}));
  EXPECT_NE(write, 0u) << "roles change when the last buffer has been written";
}

// In a tick of 50 ms, two and a half tokens of 20 ms are made: in a closed loop, in two steps of 25
// ms.
TEST_F(ClosedLoops, ABatchSharesItsSteps) {
  std::vector<std::string> values{"gpus=2",       "length_s=5",      "weight_objects=2",
                                  "requests_s=3", "tick_ms=50",      "token_us=20000",
                                  "sigma=0.3",    "output_tokens=40"};
  const auto open = make("serving", values);
  const double read = audit_.bytes_read(), written = audit_.bytes_written();
  const auto accesses = audit_.count(TraceEventKind::access);
  EXPECT_EQ(audit_.count(TraceEventKind::task), 0u);
  values.push_back("closed=1");
  const auto closed = make("serving", values);
  EXPECT_EQ(loop_races(closed), Found{});
  EXPECT_EQ(audit_.count(TraceEventKind::access), accesses);
  EXPECT_NEAR(audit_.bytes_read(), read, 1e-6 * read);
  EXPECT_NEAR(audit_.bytes_written(), written, 1e-6 * written);
  std::size_t weights = 0;
  for (const ToldEvent& told : closed) {
    if (told.event.kind == TraceEventKind::task) {
      EXPECT_EQ(told.event.bytes, 2u);
      EXPECT_EQ(told.event.duration, std::chrono::milliseconds(25));
      weights = 0;
    }
    if (told.event.kind != TraceEventKind::access || told.event.object >= 4) continue;
    EXPECT_EQ(told.event.passes, 1.25F) << "two and a half tokens in two steps";
    EXPECT_LE(++weights, 2u) << "all requests of a batch read the weights once";
  }
}

}  // namespace
}  // namespace vma
