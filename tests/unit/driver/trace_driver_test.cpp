// Goal: a trace tells which calls were made, when and for how long, and drops the oldest first.

#include "support/drivers/trace_driver.hpp"

#include "support/drivers/delay_driver.hpp"
#include "support/drivers/fault_driver.hpp"
#include "unit/driver/counting_driver.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

namespace vma {
namespace {

TEST(TraceDriver, RecordsCallsInOrderWithThreadAndTime) {
  CountingDriver inner;
  TraceDriver trace(inner, 16);
  trace.reserve(4096, 0);
  trace.unmap(Address{4096}, 4096);
  const std::vector<TracedCall> calls = trace.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].call, Call::reserve);
  EXPECT_EQ(calls[1].call, Call::unmap);
  EXPECT_EQ(calls[0].thread, ::gettid());
  EXPECT_LE(calls[0].start + calls[0].duration, calls[1].start);
  EXPECT_NE(trace.to_text().find("unmap"), std::string::npos);
}

TEST(TraceDriver, MeasuresWhatTheDriverBehindTakes) {
  DelayDriver slow(std::make_unique<CountingDriver>());
  slow.delay_each(Call::map, std::chrono::milliseconds(3));
  TraceDriver trace(slow, 16);
  trace.map(Address{4096}, 4096, ChunkHandle{1});
  EXPECT_GE(trace.calls().at(0).duration, TimePoint{std::chrono::milliseconds(3)});
}

TEST(TraceDriver, KeepsTheNewestAndSaysHowManyAreGone) {
  CountingDriver inner;
  TraceDriver trace(inner, 3);
  for (int i = 0; i < 4; ++i) trace.reserve(4096, 0);
  trace.unmap(Address{4096}, 4096);
  const std::vector<TracedCall> calls = trace.calls();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].call, Call::reserve);
  EXPECT_EQ(calls[2].call, Call::unmap);
  EXPECT_LE(calls[0].start, calls[1].start);
  EXPECT_EQ(trace.forgotten(), 2u);
  trace.clear();
  EXPECT_TRUE(trace.calls().empty());
  EXPECT_EQ(trace.forgotten(), 0u);
}

TEST(TraceDriver, ShowsCallsThatThrew) {
  CountingDriver inner;
  FaultDriver faults(inner);
  faults.fail_calls({0});
  TraceDriver trace(faults, 4);
  EXPECT_THROW(trace.release(ChunkHandle{1}), Error);
  ASSERT_EQ(trace.calls().size(), 1u);
  EXPECT_TRUE(trace.calls()[0].threw);
}

}  // namespace
}  // namespace vma
