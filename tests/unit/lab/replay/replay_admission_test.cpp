// Goal: requests start when their memory fits, give way to older ones, and all end. Method: cases
// computed by hand, and random ones for what always holds. HBM serves 4000 bytes per second, so
// that steps of a second take a second.

#include "lab/replay/replay_metrics.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <string>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class AdmissionRig : public ReplayRig {
 public:
  explicit AdmissionRig(Admission admission, std::uint64_t bytes = 200) {
    hbm_bytes = bytes;
    options.admission = admission;
    options.admission_memory = AdmissionMemory::hbm;
  }
};

/// A task of a request, after the task `before` unless that is 0. Its accesses follow.
void declare(ListedTrace& trace, Time time, std::uint32_t task, Time compute, std::uint64_t steps,
             std::uint64_t request, std::uint32_t before, TracePlace at = {}) {
  trace.task(time, task, compute, {}, steps, at);
  trace.last().object = request;
  if (before == 0) return;
  TraceEvent after;
  after.kind = TraceEventKind::after;
  after.time = time;
  after.object = before;
  after.task = task;
  trace.add(after);
}

/// Requests on one GPU. An object has the number of its request, and 100 more for its growth.
class Requests {
 public:
  /// A request's prompt fills its object in a second.
  Requests& prompt(Time time, std::uint32_t request, std::uint64_t bytes,
                   std::uint64_t prompt_bytes = 0) {
    trace.alloc(time, request, bytes);
    begin(time, request, 1);
    write(time, request, prompt_bytes == 0 ? bytes : prompt_bytes);
    return *this;
  }
  /// Steps of a second that read the object.
  Requests& steps(Time time, std::uint32_t request, std::uint64_t count) {
    begin(time, request, count);
    trace.access(time, request, 50, at).of_task(number_);
    return *this;
  }
  /// The steps declared last write all of this range.
  Requests& write_range(Time time, std::uint32_t object, std::uint64_t bytes,
                        std::uint64_t offset) {
    write(time, object, bytes);
    trace.last().offset = offset;
    trace.last().passes = static_cast<float>(1 / static_cast<double>(count_));
    return *this;
  }
  /// So they do, and the request has another object for this.
  Requests& growing_steps(Time time, std::uint32_t request, std::uint64_t count,
                          std::uint64_t bytes = 100) {
    trace.alloc(time, 100 + request, bytes).of_task(last_.at(request));
    steps(time, request, count);
    return write_range(time, 100 + request, bytes, 0);
  }
  Requests& end(Time time, std::uint32_t request, bool grown = false) {
    trace.free(time, request).of_task(last_.at(request));
    if (grown) trace.free(time, 100 + request).of_task(last_.at(request));
    return *this;
  }

  ListedTrace trace;
  TracePlace at = on_0;

 private:
  void begin(Time time, std::uint32_t request, std::uint64_t count) {
    count_ = count;
    declare(trace, time, ++number_, seconds(1), count, request, last_[request], at);
    last_[request] = number_;
  }
  void write(Time time, std::uint32_t object, std::uint64_t bytes) {
    trace.access(time, object, bytes, at).of_task(number_);
    trace.last().use = UseKind::write;
  }

  std::uint32_t number_ = 0;
  std::uint64_t count_ = 0;
  std::map<std::uint32_t, std::uint32_t> last_;  // Task by request.
};

double ends_at(const ReplayReport& report, std::uint64_t request) {
  for (const ReplayRequest& one : report.requests)
    if (one.number == request) return std::chrono::duration<double>(one.last).count();
  return -1;
}

/// Bytes that were not in the HBM of the first GPU.
double elsewhere(const ReplayReport& report) {
  return report.bytes - report.bytes_by_place.at("gpu(0)");
}

/// 200 bytes: two requests of 100 run, from 0 to 3 s and to 5 s. The third needs 200 and comes at
/// 0.5 s; the fourth needs 100 and comes at 1 s, but does not overtake. They take 2 s each.
void add_four(Requests& some) {
  some.prompt(start, 1, 100).prompt(start, 2, 100);
  some.steps(start, 1, 2).end(start, 1).steps(start, 2, 4).end(start, 2);
  some.prompt(milliseconds(500), 3, 200);
  some.steps(milliseconds(500), 3, 1).end(milliseconds(500), 3);
  some.prompt(seconds(1), 4, 100).steps(seconds(1), 4, 1).end(seconds(1), 4);
}

TEST(ReplayAdmission, WithoutItMemoryGoesElsewhere) {
  AdmissionRig rig(Admission::none);
  Requests some;
  add_four(some);
  const ReplayReport report = rig.run(some.trace);
  EXPECT_GT(elsewhere(report), 0);
  EXPECT_NEAR(ends_at(report, 4), 1 + 2 + 1, 1e-6) << "at the host";
  EXPECT_EQ(metrics_of(report, rig.machine()).requests_queued, 0u);
}

TEST(ReplayAdmission, RequestsWaitInTheOrderInWhichTheyCame) {
  for (const Admission admission : {Admission::queue, Admission::preempt}) {
    AdmissionRig rig(admission);
    Requests some;
    add_four(some);
    const ReplayReport report = rig.run(some.trace);
    EXPECT_EQ(elsewhere(report), 0);
    EXPECT_NEAR(ends_at(report, 3), 7, 1e-6);
    EXPECT_NEAR(ends_at(report, 4), 9, 1e-6);
    const ReplayMetrics metrics = metrics_of(report, rig.machine());
    EXPECT_EQ(metrics.requests, 4u);
    EXPECT_EQ(metrics.requests_queued, 2u);
    EXPECT_NEAR(metrics.queue_mean_s.value(), (4.5 + 6) / 4, 1e-6);
    EXPECT_NEAR(metrics.queue_p99_s.value(), 6, 1e-6);
    EXPECT_NEAR(metrics.first_p99_s.value(), 7, 1e-6) << "the time to the first token has the wait";
    EXPECT_NEAR(metrics.step_p99_s.value(), 1, 1e-6);
    EXPECT_EQ(metrics.preemptions, 0u);
  }
}

TEST(ReplayAdmission, EachDeviceHasItsQueue) {
  AdmissionRig rig(Admission::queue, 100);
  Requests some;
  some.prompt(start, 1, 100).steps(start, 1, 9).end(start, 1);
  some.prompt(start, 2, 100).end(start, 2);
  some.at = on_1;
  some.prompt(start, 3, 100).end(start, 3);
  const ReplayReport report = rig.run(some.trace);
  EXPECT_NEAR(ends_at(report, 3), 1, 1e-6);
  EXPECT_NEAR(ends_at(report, 2), 11, 1e-6);
}

/// Request 1 grows at 2 s. Request 2 is in its first step until 2.25 s; then it gives up the 50
/// bytes of its prompt and a quarter of the other 50. Request 1 takes a second and ends. Request 2
/// writes the 62.5 bytes again, in 1.25 s as its prompt took 1 s for 50, and has three steps left.
TEST(ReplayAdmission, TheYoungestGivesWayAndWritesAgain) {
  AdmissionRig rig(Admission::preempt);
  const Time later = milliseconds(250);
  Requests some;
  some.prompt(start, 1, 100).steps(start, 1, 1).growing_steps(start, 1, 1).end(start, 1, true);
  some.prompt(later, 2, 100, 50).steps(later, 2, 4).write_range(later, 2, 50, 50).end(later, 2);
  const ReplayReport report = rig.run(some.trace);
  EXPECT_NEAR(ends_at(report, 1), 3.25, 1e-6);
  EXPECT_NEAR(ends_at(report, 2), 7.5, 1e-6);
  EXPECT_EQ(elsewhere(report), 0);
  const ReplayMetrics metrics = metrics_of(report, rig.machine());
  EXPECT_EQ(metrics.preemptions, 1u);
  EXPECT_EQ(metrics.steps_again, 1u);
  EXPECT_EQ(metrics.bytes_again, 62.5);
  EXPECT_EQ(metrics.requests_queued, 1u);
  EXPECT_NEAR(metrics.queue_mean_s.value(), 1.0 / 2, 1e-6);
  EXPECT_NEAR(metrics.step_p99_s.value(), (7.5 - 1.25) / 4, 1e-6);
}

/// 300 bytes: request 1 grows at 3 s, and has 200 until 5 s. Request 2 would grow at 3.5 s, is the
/// youngest, and gives up its own memory. It has room at 5 s, writes again until 6 s, and has two
/// steps left.
TEST(ReplayAdmission, TheYoungestThatGrowsGivesWayItself) {
  AdmissionRig rig(Admission::preempt, 300);
  const Time later = milliseconds(500);
  Requests some;
  some.prompt(start, 1, 100).steps(start, 1, 2).growing_steps(start, 1, 2).end(start, 1, true);
  some.prompt(later, 2, 100).steps(later, 2, 2).growing_steps(later, 2, 2).end(later, 2, true);
  const ReplayReport report = rig.run(some.trace);
  EXPECT_NEAR(ends_at(report, 1), 5, 1e-6);
  EXPECT_NEAR(ends_at(report, 2), 8, 1e-6);
  EXPECT_EQ(elsewhere(report), 0);
  const ReplayMetrics metrics = metrics_of(report, rig.machine());
  EXPECT_EQ(metrics.preemptions, 1u);
  EXPECT_EQ(metrics.steps_again, 2u);
  EXPECT_EQ(metrics.bytes_again, 100);
}

/// Both need 100 more, and neither gives way: the one that has waited longer goes on elsewhere.
TEST(ReplayAdmission, AQueueWithoutPreemptionCannotBlockItself) {
  AdmissionRig rig(Admission::queue);
  const Time later = milliseconds(500);
  Requests some;
  some.prompt(start, 1, 100).growing_steps(start, 1, 2).end(start, 1, true);
  some.prompt(later, 2, 100).growing_steps(later, 2, 2).end(later, 2, true);
  const ReplayReport report = rig.run(some.trace);
  EXPECT_EQ(elsewhere(report), 100);
  EXPECT_NEAR(ends_at(report, 1), 3.5, 1e-6);
  EXPECT_NEAR(ends_at(report, 2), 5.5, 1e-6);
}

/// 500 bytes of 200: it runs when nothing else does, with three chunks elsewhere.
TEST(ReplayAdmission, ARequestLargerThanMemoryRunsAlone) {
  for (const Admission admission : {Admission::queue, Admission::preempt}) {
    AdmissionRig rig(admission);
    Requests some;
    some.prompt(start, 1, 100).steps(start, 1, 2).end(start, 1);
    some.prompt(start, 2, 500).end(start, 2);
    some.prompt(start, 3, 100).end(start, 3);
    const ReplayReport report = rig.run(some.trace);
    // At 500 bytes per second, 200 are written here, at 400 as many at the peer, at 50 the rest.
    EXPECT_EQ(elsewhere(report), 300);
    EXPECT_NEAR(ends_at(report, 2), 3 + 0.4 + 0.5 + 2, 1e-6);
    EXPECT_NEAR(ends_at(report, 3), ends_at(report, 2) + 1, 1e-6);
    EXPECT_EQ(report.accesses_lost, 0u);
  }
}

TEST(ReplayAdmission, ARequestThatGrowsBeyondMemoryKeepsWhatItHas) {
  AdmissionRig rig(Admission::preempt);
  Requests some;
  some.prompt(start, 1, 100).growing_steps(start, 1, 1, 400).end(start, 1, true);
  const ReplayReport report = rig.run(some.trace);
  EXPECT_EQ(elsewhere(report), 300);
  EXPECT_EQ(metrics_of(report, rig.machine()).preemptions, 0u);
}

/// With all memory, requests spread over it and wait only when it is full: here 200 + 200 + 100.
TEST(ReplayAdmission, AllMemoryThatADeviceReachesMayCount) {
  AdmissionRig rig(Admission::preempt);
  rig.host_bytes = 100;
  rig.options.admission_memory = AdmissionMemory::all;
  Requests some;
  for (const std::uint32_t request : {1, 2, 3, 4, 5, 6}) some.prompt(start, request, 100);
  for (const std::uint32_t request : {1, 2, 3, 4, 5, 6}) some.end(start, request);
  const ReplayReport report = rig.run(some.trace);
  EXPECT_EQ(report.accesses_lost + report.allocations_lost, 0u);
  EXPECT_EQ(metrics_of(report, rig.machine()).requests_queued, 1u);
  EXPECT_NEAR(ends_at(report, 6), 2, 1e-6);
}

/// Memory that several requests use stays where it is.
TEST(ReplayAdmission, WhatIsSharedIsNotGivenUp) {
  for (const bool shared : {true, false}) {
    AdmissionRig rig(Admission::preempt, 300);
    Requests some;
    some.prompt(start, 1, 100).prompt(milliseconds(250), 2, 100);
    some.steps(seconds(2), 1, 1);
    if (shared) some.trace.access(seconds(2), 2, 50, on_0).of_task(3);  // The prompt of request 2.
    some.growing_steps(seconds(4), 1, 2, 200).steps(seconds(4), 2, 4);
    const ReplayReport report = rig.run(some.trace);
    const ReplayMetrics metrics = metrics_of(report, rig.machine());
    EXPECT_EQ(report.requests.size(), 2u);
    EXPECT_EQ(report.accesses_lost, 0u);
    EXPECT_EQ(metrics.bytes_again, shared ? 0 : 100);
    EXPECT_EQ(metrics.preemptions, shared ? 0u : 1u);
  }
}

TEST(ReplayAdmission, GoodputIsOfRequestsThatMeetAllLimits) {
  AdmissionRig rig(Admission::queue);
  Requests some;
  add_four(some);
  const ReplayReport report = rig.run(some.trace);
  const auto met = [&](RequestLimits limits) {
    const ReplayMetrics metrics = metrics_of(report, rig.machine(), limits);
    EXPECT_NEAR(metrics.goodput.value(), 4 * metrics.limits_met.value() / 9, 1e-9);
    return metrics.limits_met.value();
  };
  // First tasks take 1, 1, 5.5 and 7 s; the first two requests have steps of a second, the others
  // none that are repeated.
  EXPECT_EQ(met({seconds(2), milliseconds(1001)}), 0.5);
  EXPECT_EQ(met({seconds(6), std::nullopt}), 0.75);
  EXPECT_EQ(met({std::nullopt, milliseconds(999)}), 0.5);
  EXPECT_EQ(metrics_of(report, rig.machine()).goodput, std::nullopt);
}

/// Requests of random sizes that grow, on both GPUs.
void add_any(std::uint64_t seed, ListedTrace& trace) {
  std::mt19937_64 random(seed);
  const auto from = [&](std::uint64_t least, std::uint64_t most) {
    return least + random() % (most - least + 1);
  };
  std::uint32_t task = 0;
  Time now{0};
  for (std::uint64_t request = 1; request <= 60; ++request) {
    now += milliseconds(from(0, 400));
    const std::uint64_t prompt = from(20, 350), pieces = from(0, 4);
    trace.alloc(now, 1000 * request, prompt);
    declare(trace, now, ++task, milliseconds(from(0, 300)), 1, request, 0);
    trace.access(now, 1000 * request, prompt).of_task(task);
    trace.last().use = UseKind::write;
    for (std::uint64_t piece = 1; piece <= pieces; ++piece) {
      const std::uint64_t steps = from(1, 20);
      trace.alloc(now, 1000 * request + piece, 100).of_task(task);
      declare(trace, now, task + 1, milliseconds(30), steps, request, task);
      ++task;
      for (std::uint64_t earlier = 0; earlier < piece; ++earlier)
        trace.access(now, 1000 * request + earlier, 20).of_task(task);
      trace.access(now, 1000 * request + piece, 100).of_task(task);
      trace.last().use = UseKind::write;
      trace.last().passes = static_cast<float>(1 / static_cast<double>(steps));
    }
    for (std::uint64_t piece = 0; piece <= pieces; ++piece)
      trace.free(now, 1000 * request + piece).of_task(task);
  }
}

TEST(ReplayAdmission, EveryRequestEndsAndNothingIsLost) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t preempted = 0;
    for (const Admission admission : {Admission::none, Admission::queue, Admission::preempt}) {
      for (const AdmissionMemory memory : {AdmissionMemory::all, AdmissionMemory::hbm}) {
        const auto run = [&] {
          AdmissionRig rig(admission, 600);
          rig.options.admission_memory = memory;
          rig.host_bytes = memory == AdmissionMemory::all ? 300 : 100'000;
          ListedTrace trace;
          add_any(seed, trace);
          return rig.run(trace, seed % 2 == 0 ? "static" : "cost_benefit");
        };
        const ReplayReport report = run();
        EXPECT_EQ(report, run());
        const ReplayMetrics metrics = metrics_of(report, AdmissionRig(admission).machine());
        EXPECT_EQ(metrics.requests, 60u);
        if (memory == AdmissionMemory::hbm || admission == Admission::preempt) {
          EXPECT_EQ(report.accesses_lost, 0u);
        }
        EXPECT_TRUE(admission == Admission::preempt || metrics.preemptions == 0);
        preempted += metrics.preemptions;
      }
    }
    EXPECT_GT(preempted, 0u);
  }
}

/// As long as everything fits, a replay is the one without admission.
TEST(ReplayAdmission, ChangesNothingWhereMemorySuffices) {
  const auto run = [](Admission admission) {
    AdmissionRig rig(admission, 100'000);
    ListedTrace trace;
    add_any(1, trace);
    return rig.run(trace, "cost_benefit");
  };
  EXPECT_EQ(run(Admission::none), run(Admission::preempt));
}

}  // namespace
}  // namespace vma
