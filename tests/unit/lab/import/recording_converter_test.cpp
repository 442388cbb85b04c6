// Goal: a recording becomes a trace of what its program did, in order of time whatever the order of
// records; invalid records are counted.

#include "lab/import/trace_formats.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include "base/executor.hpp"
#include "recording/recording.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace vma {
namespace {

using Lines = std::vector<std::string>;
constexpr std::int64_t millisecond = 1'000'000;

// Places 0 and 1 are GPUs, 2 is the host.
class RecordingConverter : public testing::Test {
 protected:
  template <typename... Records>
  std::vector<ToldEvent> convert(const Records&... records) {
    RecordingOptions recording;
    recording.directory = folder_.path().string();
    ThreadedExecutor threads;
    {
      Recording written(threads, recording, header_);
      (add(written, records), ...);
    }
    ConvertOptions options;
    options.format = "recording";
    options.input = folder_ / fmt::format("vmart-{}-1.rec", ::getpid());
    options.output = folder_ / "out.vtrace";
    const ConvertReport report = convert_trace(options);
    for (const BadLine& line : report.bad.kept()) {
      bad_.push_back(fmt::format("{}: {}", line.line, line.reason));
    }
    return read_all(options.output);
  }

  static void add(Recording& recording, const RecordedUse& use) { recording.add({&use, 1}); }
  template <typename Record>
  static void add(Recording& recording, const Record& record) {
    recording.add(record);
  }

  static RecordedUse use(std::int64_t time_ns, std::uint64_t allocation, std::uint64_t offset,
                         std::uint64_t bytes) {
    RecordedUse use;
    use.time = Time(time_ns);
    use.allocation = allocation;
    use.offset = offset;
    use.bytes = bytes;
    use.device = PlaceId{1};
    return use;
  }
  static RecordedAllocation made(std::int64_t time_ns, std::uint64_t number, std::uint64_t bytes) {
    RecordedAllocation made;
    made.time = Time(time_ns);
    made.allocation = number;
    made.bytes = bytes;
    made.chunk_bytes = 64;
    made.tag = "kv";
    made.places = {{PlaceId{2}, 2}, {PlaceId{0}, 1}};
    return made;
  }

  TemporaryFolder folder_;
  RecordingHeader header_ = sample_header();
  Lines bad_;
};

ToldEvent recorded(std::int64_t time_ns, std::uint64_t object, std::uint64_t offset,
                   std::uint64_t bytes, float passes = 1) {
  ToldEvent told = access(time_ns, object, bytes);
  told.event.offset = offset;
  told.event.passes = passes;
  told.event.at = TracePlace(gpu(1));
  return told;
}

TEST_F(RecordingConverter, UsesBecomeAccesses) {
  ASSERT_EQ(sample_header().places[1].place, gpu(1));
  ASSERT_EQ(sample_header().places[2].place, host(0));
  RecordedUse sampled = use(30, 7, 64, 32);
  sampled.passes = 2.5;
  sampled.weight = 4;
  sampled.kind = UseKind::write;
  const auto events =
      convert(made(10, 7, 192), use(20, 7, 0, 64), sampled, RecordedFree{Time(40), 7});
  ToldEvent allocated = allocation(10, 7, 192, "kv");
  allocated.event.chunk_bytes = 64;
  allocated.event.at = TracePlace(host(0));
  ToldEvent placed = recorded(10, 7, 128, 64);
  placed.event.kind = TraceEventKind::place;
  placed.event.at = TracePlace(gpu(0));
  ToldEvent written = recorded(30, 7, 64, 32, 10);
  written.event.use = UseKind::write;
  EXPECT_EQ(events,
            (std::vector{allocated, placed, recorded(20, 7, 0, 64), written, free_of(40, 7)}));
  EXPECT_EQ(bad_, Lines{});
}

// Uses are drained some time after they were made, so a free may be recorded before them.
TEST_F(RecordingConverter, RecordsAreSortedByTime) {
  const auto events = convert(made(100, 1, 64), RecordedFree{Time(500), 1}, use(300, 1, 0, 8),
                              use(200, 1, 8, 8), use(50, 1, 16, 8));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1], recorded(100, 1, 16, 8)) << "not before there was anything";
  EXPECT_EQ(events[2], recorded(200, 1, 8, 8));
  EXPECT_EQ(events[3], recorded(300, 1, 0, 8));
  EXPECT_EQ(events[4], free_of(500, 1));
  EXPECT_EQ(bad_, Lines{});
}

TEST_F(RecordingConverter, AFreeFollowsTheUsesBeforeIt) {
  const auto events = convert(made(0, 1, 64), use(300, 1, 0, 8), RecordedFree{Time(200), 1});
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2], free_of(300, 1));
}

TEST_F(RecordingConverter, WhatMakesNoSenseIsCounted) {
  RecordedUse idle = use(10, 1, 0, 8);
  idle.passes = 0;
  const auto events =
      convert(made(0, 1, 64), use(1, 2, 0, 8), use(2, 1, 64, 1), use(3, 1, 60, 100), idle,
              RecordedFree{Time(4), 2}, made(5, 1, 64), use(3000 * millisecond, 1, 0, 8),
              use(1999 * millisecond, 1, 0, 8), RecordedFree{Time(4000 * millisecond), 1},
              use(4001 * millisecond, 1, 0, 8));
  EXPECT_EQ(bad_, (Lines{"2: a use of allocation 2, which does not exist",
                         "3: a use beyond its allocation", "5: its passes are not a number above 0",
                         "6: a free of allocation 2, which does not exist",
                         "7: allocation 1 already exists", "9: a use that is too late",
                         "11: a use of an allocation that was freed"}));
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1], recorded(3, 1, 60, 4)) << "cut at the allocation's end";
}

TEST_F(RecordingConverter, PlacesGoOnInALaterRecord) {
  RecordedAllocation rest = made(10, 7, 300);
  rest.first_slot = 3;
  rest.places = {{PlaceId{1}, 2}, {PlaceId{2}, 7}};
  const auto events = convert(made(10, 7, 300), rest, RecordedFree{Time(20), 7});
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1].event.offset, 128u);
  EXPECT_EQ(events[2].event.offset, 192u);
  EXPECT_EQ(events[2].event.bytes, 108u) << "the last chunk is shorter";
  EXPECT_EQ(events[2].event.at, TracePlace(gpu(1)));
  EXPECT_EQ(events[3], free_of(20, 7)) << "there are no ten slots";
}

// The copy began earlier, but until the switch the memory is read at its old place.
TEST_F(RecordingConverter, WhatTheProgramMovedLiesThereFromItsSwitchOn) {
  // Without a policy, the originator of a move would be unknown.
  header_.scheduler.emplace().policy = "static";
  RecordedMove moved;
  moved.start = Time(20);
  moved.end = Time(30);
  moved.allocation = 7;
  moved.bytes = 64;
  moved.slot = 1;
  moved.to = PlaceId{1};
  moved.moved = true;
  const auto events = convert(made(10, 7, 128), moved, use(25, 7, 64, 8), use(35, 7, 64, 8),
                              RecordedFree{Time(40), 7});
  ToldEvent placed = recorded(30, 7, 64, 64);
  placed.event.kind = TraceEventKind::place;
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1], recorded(25, 7, 64, 8));
  EXPECT_EQ(events[2], placed);
  EXPECT_EQ(events[3], recorded(35, 7, 64, 8));
  EXPECT_EQ(bad_, Lines{});
}

TEST_F(RecordingConverter, WhatIsNoRecordingIsRefused) {
  ConvertOptions options;
  options.format = "recording";
  options.input = folder_ / "a.rec";
  options.output = folder_ / "out.vtrace";
  write_text(options.input, "nothing");
  EXPECT_NE(error_of([&] { convert_trace(options); }).find("a.rec: offset 0: is not a recording"),
            std::string::npos);
}

}  // namespace
}  // namespace vma
