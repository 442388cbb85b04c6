// Goal: an audit finds events that contradict earlier ones, and sums up the others.

#include "lab/trace/trace_audit.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

namespace vma {
namespace {

TEST(TraceAudit, FindsWhatDoesNotFit) {
  TraceAudit audit;
  EXPECT_EQ(audit.add(access(0, 1, 1).event), "object 1 does not exist");
  EXPECT_EQ(audit.add(allocation(1, 1, 100).event), std::nullopt);
  EXPECT_EQ(audit.add(allocation(2, 1, 100).event), "object 1 already exists");
  EXPECT_EQ(audit.add(access(3, 1, 100).event), std::nullopt);
  TraceEvent beyond = access(3, 1, 100).event;
  beyond.offset = 1;
  EXPECT_EQ(audit.add(beyond), "100 bytes from 1 on of object 1, which has 100");
  EXPECT_EQ(audit.add(free_of(4, 1).event), std::nullopt);
  EXPECT_EQ(audit.add(free_of(4, 1).event), "object 1 does not exist");
  EXPECT_EQ(audit.add(allocation(5, 1, 100).event), std::nullopt);
  EXPECT_EQ(audit.fault_count(), 4u);
  EXPECT_EQ(audit.events(), 8u);
}

TEST(TraceAudit, AddsUp) {
  TraceAudit audit;
  std::vector<TraceEvent> events{allocation(10, 1, 100).event, allocation(11, 2, 50).event,
                                 access(12, 1, 100).event,     access(13, 2, 50).event,
                                 free_of(14, 1).event,         allocation(15, 3, 20).event};
  events[2].passes = 2.5;
  events[2].at = TracePlace(gpu(3));
  events[3].use = UseKind::read_write;
  events[3].duration = Time(100);
  audit.add(events);
  EXPECT_EQ(audit.fault_count(), 0u);
  EXPECT_EQ(audit.count(TraceEventKind::allocation), 3u);
  EXPECT_EQ(audit.bytes_live_max(), 150u);
  EXPECT_EQ(audit.objects_live(), 2u);
  EXPECT_EQ(audit.bytes_read(), 300);
  EXPECT_EQ(audit.bytes_written(), 50);
  EXPECT_EQ(audit.unplaced(), 1u);
  EXPECT_EQ(audit.devices(), std::set<int>{3});
  EXPECT_EQ(audit.begin(), Time(10));
  EXPECT_EQ(audit.end(), Time(113)) << "an access lasts";
}

TEST(TraceAudit, SaysWhatRoomATraceNeeds) {
  TraceAudit audit;
  std::vector<TraceEvent> events{allocation(0, 1, 100).event, allocation(0, 2, 30).event,
                                 free_of(1, 1).event, allocation(2, 3, 60).event};
  audit.add(events);
  EXPECT_EQ(audit.room().peak_bytes, 130u);
  EXPECT_EQ(audit.room().chunk_max(40), 40u);
  EXPECT_EQ(audit.room().chunk_max(1000), 100u) << "no chunk is larger than its object";
  events = {allocation(3, 4, 500).event, allocation(3, 5, 50).event};
  events[0].chunk_bytes = 64;
  events[1].chunk_bytes = 999;
  audit.add(events);
  EXPECT_EQ(audit.room().chunk_max(40), 64u);
  EXPECT_EQ(audit.room().chunk_max(80), 80u);
}

TEST(TraceAudit, KeepsTheFirstFaultsWithTheirNumbers) {
  TraceAudit audit;
  std::vector<TraceEvent> events{allocation(0, 1, 1).event};
  for (int time = 1; time < 100; ++time) events.push_back(access(time, 9, 1).event);
  audit.add(events);
  EXPECT_EQ(audit.fault_count(), 99u);
  ASSERT_EQ(audit.faults().size(), TraceAudit::faults_kept_max);
  EXPECT_EQ(audit.faults()[0].event, 2u);
  EXPECT_EQ(audit.faults()[0].reason, "object 9 does not exist");
}

TEST(TraceAudit, TasksAreDeclaredOnceAndBeforeTheirSuccessors) {
  TraceAudit audit;
  EXPECT_EQ(audit.add(task_of(1, 5).event), std::nullopt);
  EXPECT_EQ(audit.add(task_of(1, 5).event), "task 5 is already declared");
  EXPECT_EQ(audit.add(task_of(1, 6).event), std::nullopt);
  EXPECT_EQ(audit.add(after_of(1, 6, 5).event), std::nullopt);
  EXPECT_EQ(audit.add(after_of(1, 6, 7).event), "task 7 is not declared");
  EXPECT_EQ(audit.add(after_of(1, 5, 6).event), "a predecessor of task 5 does not follow the task");
  EXPECT_EQ(audit.add(after_of(2, 6, 5).event), "a predecessor of task 6 does not follow the task");
  TraceEvent waits = allocation(3, 1, 10).event;
  waits.task = 8;
  EXPECT_EQ(audit.add(waits), "task 8 is not declared");
  waits.task = 5;
  EXPECT_EQ(audit.add(waits), std::nullopt);
  EXPECT_EQ(audit.add(after_of(3, 6, 5).event), "a predecessor of task 6 does not follow the task");
}

TEST(TraceAudit, AccessesOfATaskFollowIt) {
  TraceAudit audit;
  const auto access_of = [](std::int64_t time_ns, std::uint32_t task) {
    TraceEvent event = access(time_ns, 1, 10).event;
    event.task = task;
    return event;
  };
  EXPECT_EQ(audit.add(allocation(0, 1, 10).event), std::nullopt);
  EXPECT_EQ(audit.add(access_of(0, 3)), std::nullopt) << "an open loop";
  EXPECT_EQ(audit.add(task_of(1, 3).event), "task 3 is declared after its first access");
  EXPECT_EQ(audit.add(task_of(1, 5).event), std::nullopt);
  EXPECT_EQ(audit.add(access_of(1, 5)), std::nullopt);
  EXPECT_EQ(audit.add(after_of(1, 5, 3).event), "a predecessor of task 5 does not follow the task");
  EXPECT_EQ(audit.add(access_of(2, 5)), "an access of task 5 has another time than the task");
  TraceEvent event = access_of(1, 5);
  event.duration = Time(1);
  EXPECT_EQ(audit.add(event), "an access of task 5 has a duration, but the task gives it");
  event = access_of(1, 5);
  event.at = TracePlace(gpu(0));
  EXPECT_EQ(audit.add(event), "an access of task 5 has another device than the task");
  EXPECT_EQ(audit.add(access_of(2, 4)), std::nullopt) << "an open loop";
  EXPECT_EQ(audit.add(access_of(2, 5)), "an access of task 5 does not follow the task");
}

TEST(TraceAudit, NumbersOfObjectsThatTasksUseAreNotUsedAgain) {
  TraceAudit audit;
  const auto allocate = [&](std::int64_t time_ns, std::uint64_t object) {
    return audit.add(allocation(time_ns, object, 10).event);
  };
  for (const std::uint64_t object : {1, 2, 700}) EXPECT_EQ(allocate(0, object), std::nullopt);
  EXPECT_EQ(audit.add(task_of(1, 5).event), std::nullopt);
  TraceEvent used = access(1, 700, 10).event, waits = free_of(2, 2).event;
  used.task = waits.task = 5;
  EXPECT_EQ(audit.add(used), std::nullopt);
  EXPECT_EQ(audit.add(free_of(2, 1).event), std::nullopt);
  EXPECT_EQ(audit.add(waits), std::nullopt);
  EXPECT_EQ(audit.add(free_of(2, 700).event), std::nullopt);
  EXPECT_EQ(allocate(3, 1), std::nullopt) << "only an open loop has used it";
  EXPECT_EQ(allocate(3, 2), "object 2 has the number of one that tasks used");
  EXPECT_EQ(allocate(3, 700), "object 700 has the number of one that tasks used");
}

TEST(TraceAudit, HintsAreOfObjectsThatExist) {
  TraceAudit audit;
  const auto hint = [](std::int64_t time_ns, std::uint64_t object, std::uint64_t bytes) {
    return hint_of_object(time_ns, object, bytes, {}).event;
  };
  EXPECT_EQ(audit.add(hint(0, 1, 1)), "object 1 does not exist");
  EXPECT_EQ(audit.add(allocation(1, 1, 100).event), std::nullopt);
  EXPECT_EQ(audit.add(hint(1, 1, 100)), std::nullopt);
  EXPECT_EQ(audit.add(hint(1, 1, 101)), "101 bytes from 0 on of object 1, which has 100");
  EXPECT_EQ(audit.add(free_of(2, 1).event), std::nullopt);
  EXPECT_EQ(audit.add(hint(3, 1, 1)), "object 1 does not exist");
  EXPECT_EQ(audit.add(allocation(4, 1, 100).event), std::nullopt) << "no task has announced it";
}

TEST(TraceAudit, HintsOfATaskFollowItOrWaitForIt) {
  TraceAudit audit;
  TraceEvent hint = hint_of_object(1, 1, 10, {}).event;
  hint.task = 5;
  EXPECT_EQ(audit.add(allocation(0, 1, 10).event), std::nullopt);
  EXPECT_EQ(audit.add(hint), "task 5 is not declared");
  EXPECT_EQ(audit.add(task_of(1, 5).event), std::nullopt);
  EXPECT_EQ(audit.add(hint), std::nullopt);
  EXPECT_EQ(audit.add(after_of(1, 5, 3).event), "a predecessor of task 5 does not follow the task");
  TraceEvent used = access(1, 1, 10).event;
  used.task = 5;
  EXPECT_EQ(audit.add(used), std::nullopt) << "hints are between accesses too";
  hint.time = Time(2);
  EXPECT_EQ(audit.add(hint), "a hint of task 5 has another time than the task");
  hint.at_end = true;
  EXPECT_EQ(audit.add(hint), std::nullopt);
  hint.at_end = false;
  EXPECT_EQ(audit.add(hint), "a hint of task 5 does not follow the task");
  hint.at_end = true;
  hint.task = 6;
  EXPECT_EQ(audit.add(hint), "task 6 is not declared");
  EXPECT_EQ(audit.add(free_of(3, 1).event), std::nullopt);
  EXPECT_EQ(audit.add(allocation(3, 1, 10).event), "object 1 has the number of one that tasks used")
      << "in a replay, the hint may come later";
}

TEST(TraceAudit, AddsUpWhatTasksRepeat) {
  TraceAudit audit;
  std::vector<TraceEvent> events{allocation(0, 1, 100).event, task_of(10, 1, 20, 5).event,
                                 access(10, 1, 100).event, access(11, 1, 100).event};
  events[1].at = TracePlace(gpu(3));
  events[2].task = 1;
  events[2].passes = 0.5;
  audit.add(events);
  EXPECT_EQ(audit.fault_count(), 0u);
  EXPECT_EQ(audit.bytes_read(), 350);
  EXPECT_EQ(audit.unplaced(), 1u) << "the first one is on the device of its task";
  EXPECT_EQ(audit.devices(), std::set<int>{3});
  EXPECT_EQ(audit.end(), Time(110));
}

}  // namespace
}  // namespace vma
