// Goal: what a program does between its accesses is found in one recording, and holds in the
// prediction of another in which memory is slower.

#include "lab/fidelity/program_pauses.hpp"

#include "base/units.hpp"
#include "lab/fidelity/fidelity.hpp"
#include "lab/fidelity/recorded_machine.hpp"
#include "unit/lab/fidelity/recorded_header.hpp"
#include "unit/lab/replay/two_gpus.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// A run, event by event. Places are named by their numbers already, as `read_run` leaves them.
class MadeRun {
 public:
  MadeRun() {
    run.header = recorded_header();
    run.header.scheduler->policy = "stay_put";
  }
  void add_allocation(Time time, std::uint64_t object, std::uint64_t bytes, Place at) {
    TraceEvent event;
    event.kind = TraceEventKind::allocation;
    event.time = time;
    event.object = object;
    event.bytes = bytes;
    event.chunk_bytes = 64 * MiB;
    event.at = TracePlace(at);
    add(event);
  }
  void add_access(Time time, int device, std::uint64_t object, std::uint64_t bytes) {
    TraceEvent event;
    event.time = time;
    event.object = object;
    event.bytes = bytes;
    event.at = TracePlace(gpu(device));
    add(event);
  }
  void add_other(Time time, TraceEventKind kind, std::uint64_t object) {
    TraceEvent event;
    event.kind = kind;
    event.time = time;
    event.object = object;
    if (kind == TraceEventKind::place) {
      event.bytes = 64 * MiB;
      event.at = TracePlace(host(0));
    }
    add(event);
  }
  ReplayMachine machine() const { return recorded_machine(run.header, std::nullopt); }
  ReplayReport predict_with(const ProgramPauses& pauses) {
    PredictOptions options;
    options.pauses = &pauses;
    return predict(run, machine(), options);
  }

  RecordedRun run;

 private:
  void add(const TraceEvent& event) { run.trace.write({&event, 1}, run.trace.tags()); }
};

constexpr std::uint64_t step_bytes = 1'024 * MiB;
constexpr int steps = 50;
constexpr double own_s = step_bytes / 4e12, host_s = step_bytes / 50e9;

/// GPU 1 reads 1 GiB in four launches and computes, once every `period`.
void add_steps(MadeRun& made, Time period) {
  for (int step = 0; step < steps; ++step)
    for (int launch = 0; launch < 4; ++launch)
      made.add_access(step * period + microseconds(launch), 1, 1, step_bytes / 4);
}

TEST(ProgramPauses, AreWhatAccessesDoNotExplain) {
  MadeRun made;
  made.add_allocation(Time(0), 1, step_bytes, gpu(1));
  add_steps(made, milliseconds(2));
  const ProgramPauses pauses(made.run, made.machine());
  const double gaps = 3 * 3e-6;  // Between the launches of a step.
  EXPECT_NEAR(in_seconds(pauses.total()), (steps - 1) * (2e-3 - own_s - gaps), 1e-6);
  const ReplayReport report = made.predict_with(pauses);
  EXPECT_NEAR(report.seconds(), (steps - 1) * 2e-3 + own_s + gaps, 1e-5);
  EXPECT_EQ(report.accesses, 4u * steps);
}

TEST(ProgramPauses, OfOneRunHoldInAnotherWhoseMemoryIsSlower) {
  MadeRun fast, slow;
  fast.add_allocation(Time(0), 1, step_bytes, gpu(1));
  add_steps(fast, milliseconds(2));
  slow.add_allocation(Time(0), 1, step_bytes, host(0));
  add_steps(slow, milliseconds(30));
  const ProgramPauses pauses(fast.run, fast.machine());
  EXPECT_NEAR(slow.predict_with(pauses).seconds(), in_seconds(pauses.total()) + steps * host_s,
              0.001 * steps * host_s);
}

TEST(ProgramPauses, LeaveOutStallsAndTheBacklogOfLaunchesAhead) {
  MadeRun made;
  made.add_allocation(Time(0), 1, step_bytes, gpu(0));
  for (int i = 0; i < 4; ++i) made.add_access(microseconds(i), 0, 1, step_bytes);  // 1.07 ms.
  made.add_access(milliseconds(5), 0, 1, step_bytes);
  made.run.stalls.push_back({milliseconds(1), milliseconds(1), Time(0), 1, 1});  // Half in work.
  made.run.stalls.push_back({milliseconds(3), microseconds(200), microseconds(300), 1, 1});
  const Time end = std::chrono::duration_cast<Time>(std::chrono::duration<double>(4 * own_s));
  const Time pause = milliseconds(5) - end - 3 * microseconds(3) - microseconds(500) -
                     (milliseconds(2) - end - 3 * microseconds(3));
  EXPECT_NEAR(in_seconds(ProgramPauses(made.run, made.machine()).total()), in_seconds(pause), 1e-7);
}

TEST(ProgramPauses, AWaitBeginsATaskEvenIfTheCostsAreTooHigh) {
  MadeRun made;
  made.add_allocation(Time(0), 1, step_bytes, gpu(1));
  add_steps(made, microseconds(200));  // By the costs, a step takes 268 us.
  const ProgramPauses pauses(made.run, made.machine());
  EXPECT_EQ(pauses.total(), Time(0));
  KeptTrace loop;
  pauses.write_loop(made.run, loop);
  EXPECT_EQ(std::ranges::count(loop.events(), TraceEventKind::task, &TraceEvent::kind), steps);
}

TEST(ProgramPauses, KeepTheLivesOfObjects) {
  // Three arrays of 5 GiB, one after the other, have room in 8 GiB; GPU 0 reads the last, too.
  MadeRun made;
  for (int i = 0; i < 3; ++i) {
    const auto object = static_cast<std::uint64_t>(i + 1);
    made.add_allocation(i * milliseconds(10), object, 5 * GiB, gpu(1));
    made.add_access(i * milliseconds(10) + milliseconds(1), 1, object, 5 * GiB);
    if (i == 2) made.add_access(i * milliseconds(10) + milliseconds(5), 0, object, GiB);
    made.add_other(i * milliseconds(10) + milliseconds(9), TraceEventKind::free, object);
  }
  const ReplayReport report = made.predict_with(ProgramPauses(made.run, made.machine()));
  EXPECT_EQ(report.accesses, 4u);
  EXPECT_EQ(report.accesses_lost + report.allocations_lost, 0u);
  EXPECT_EQ(report.devices[1].bytes_by_place[1], 15.0 * GiB) << "all in its own HBM";
  EXPECT_EQ(report.devices[0].bytes_by_place[1], 1.0 * GiB);
  EXPECT_NEAR(report.seconds(), 0.02 + 5 * GiB / 4e12, 0.002);
}

TEST(ProgramPauses, KeepTheirSumIfARecordingLacksSomeUses) {
  MadeRun all, some;
  for (MadeRun* made : {&all, &some}) {
    made->add_allocation(Time(0), 1, step_bytes, gpu(0));
    for (int i = 0; i < 100; ++i)
      if (made == &all || i % 30 != 7) made->add_access(i * milliseconds(1), 0, 1, 4096);
  }
  const ProgramPauses pauses(all.run, all.machine());
  EXPECT_NEAR(some.predict_with(pauses).seconds(), 0.099, 1e-5);
}

TEST(ProgramPauses, OfAnotherProgramAreRefused) {
  MadeRun one, other;
  for (MadeRun* made : {&one, &other}) made->add_allocation(Time(0), 1, step_bytes, gpu(0));
  one.add_access(Time(1), 0, 1, 16);
  one.add_access(Time(2), 0, 1, 16);
  other.add_access(Time(1), 0, 1, 16);
  const auto why = [](MadeRun& run, const MadeRun& from) {
    return error_of([&] { run.predict_with(ProgramPauses(from.run, from.machine())); });
  };
  EXPECT_NE(why(one, other).find("GPU 0 made 2 accesses in the run, and 1 where"),
            std::string::npos);
  EXPECT_NE(why(other, one).find("GPU 0 made 1 accesses in the run, and 2 where"),
            std::string::npos);
  one.add_other(Time(3), TraceEventKind::place, 1);
  EXPECT_NE(why(one, one).find("moved memory itself"), std::string::npos);
}

}  // namespace
}  // namespace vma
