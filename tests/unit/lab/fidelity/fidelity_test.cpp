// Goal: a recording made from a replay is predicted without error: the file, its reader, the
// machine in its header and the replay add and lose nothing. Errors in a recording or a calibration
// are reported.

#include "lab/fidelity/fidelity.hpp"

#include "base/executor.hpp"
#include "base/units.hpp"
#include "lab/fidelity/recorded_machine.hpp"
#include "recording/recording.hpp"
#include "unit/lab/fidelity/recorded_header.hpp"
#include "unit/lab/replay/two_gpus.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t chunk_bytes = 64 * MiB, launch_bytes = 256 * MiB, array_bytes = GiB;

RecordedUse use(Time time, PlaceId device, std::uint64_t allocation, std::uint64_t offset,
                std::uint64_t bytes) {
  RecordedUse use;
  use.time = time;
  use.device = device;
  use.allocation = allocation;
  use.offset = offset;
  use.bytes = bytes;
  return use;
}

/// GPU 1 repeatedly passes over an array at GPU 0, with four launches at a time; GPU 0 passes over
/// one of its own. The last, short launch is at `end`.
std::vector<RecordedUse> uses(Time end) {
  constexpr microseconds round(269);  // The shortest possible round of GPU 1 is slightly less.
  constexpr int rounds = 2000;
  std::vector<RecordedUse> uses;
  for (int i = 0; i < rounds; ++i) {
    for (int launch = 0; launch < 4; ++launch) {
      const Time at = i * round + microseconds(launch);
      const auto offset = static_cast<std::uint64_t>(launch) * launch_bytes;
      uses.push_back(use(at, gpu_1, 1, offset, launch_bytes));
      uses.push_back(use(at, gpu_0, 2, offset, launch_bytes / 2));
    }
  }
  uses.push_back(use(end, gpu_1, 2, 0, 1));
  return uses;
}

class FidelityOfReplays : public testing::Test {
 protected:
  /// Returns the path of the file.
  template <typename Body>  // body(Recording&)
  std::string write(const std::string& name, Body&& body) {
    RecordingOptions options;
    options.directory = folder_ / name;
    ThreadedExecutor threads;
    Recording recording(threads, options, recorded_header());
    body(recording);
    return fmt::format("{}/vmart-{}-1.rec", options.directory, ::getpid());
  }
  static void add_program(Recording& recording, Time end) {
    for (const std::uint64_t number : {1, 2}) {
      RecordedAllocation made;
      made.allocation = number;
      made.bytes = array_bytes;
      made.chunk_bytes = chunk_bytes;
      made.places = {{gpu_0, array_bytes / chunk_bytes}};
      recording.add(made);
    }
    recording.add(uses(end));
  }
  /// The replay's report about the program.
  ReplayReport truth() {
    RecordedRun run;
    read_run(write("program", [](Recording& to) { add_program(to, std::chrono::seconds(9)); }), 0,
             run);
    return predict(run, recorded_machine(run.header, std::nullopt), {});
  }
  /// A recording of exactly these events.
  std::string recorded(const ReplayReport& truth) {
    return write("run", [&](Recording& recording) {
      add_program(recording, truth.end - truth.begin);
      RecordedMove move;
      move.bytes = chunk_bytes;
      move.allocation = move.decision = 1;
      move.from = gpu_0;
      move.to = gpu_1;
      move.moved = true;
      for (; move.slot < truth.moves; ++move.slot) recording.add(move);
      recording.add(RecordedStall{Time(0), truth.stall, truth.skew, 1, 2});
      for (std::uint64_t gate = 1; gate < truth.gates; ++gate)
        recording.add(RecordedStall{Time(0), Time(0), Time(0), 1, 2});
    });
  }

  TemporaryFolder folder_;
};

const Foreseen& named(const std::vector<Foreseen>& figures, const std::string& key) {
  return *std::ranges::find(figures, key, &Foreseen::key);
}

TEST_F(FidelityOfReplays, WhatAReplaySaidIsForetoldWithoutAnError) {
  const ReplayReport said = truth();
  ASSERT_EQ(said.bytes_by_route.size(), 1u);
  ASSERT_EQ(said.bytes_by_route.at("gpu(0)>gpu(1)"), array_bytes)
      << "the policy has something to do";
  ASSERT_GT(said.skew, Time::zero());
  RecordedRun run;
  read_run(recorded(said), 0, run);
  const ReplayReport again = predict(run, recorded_machine(run.header, std::nullopt), {});
  EXPECT_EQ(again, said);
  for (const Foreseen& figure : compare(run.facts, again, Pacing::at_once, 0.1, 0.15)) {
    if (figure.key == "own_share") continue;  // All moves of the recording are at its beginning.
    EXPECT_NEAR(figure.error().value_or(1), 0, 1e-12) << figure.name;
    EXPECT_GT(figure.recorded, 0) << figure.name;
    EXPECT_TRUE(figure.within());
  }
}

TEST_F(FidelityOfReplays, AMachineThatIsAnotherIsSeenInTheErrors) {
  RecordedRun run;
  read_run(recorded(truth()), 0, run);
  Calibration slower;
  slower.places = {gpu(2), gpu(5), host(0)};
  slower.costs = run.header.costs;
  slower.gaps = run.header.gaps;
  for (const PlaceId device : {gpu_0, gpu_1}) slower.costs.access_rate(device, device) /= 1.5;
  for (const PlaceId from : {gpu_0, gpu_1, host_0})
    for (const PlaceId to : {gpu_0, gpu_1, host_0}) slower.costs.stall_fixed(from, to) *= 2;
  slower.costs.rank();
  EXPECT_EQ(recorded_machine(run.header, std::nullopt).late.wait, Time::zero());
  slower.late = {Time(1), Time(0)};
  EXPECT_EQ(recorded_machine(run.header, slower).late.wait, Time(1)) << "the calibration's";
  const ReplayReport report = predict(run, recorded_machine(run.header, slower), {});
  const auto figures = compare(run.facts, report, Pacing::at_once, 0.1, 0.15);
  EXPECT_GT(named(figures, "total_s").error().value_or(0), 0.1);
  EXPECT_FALSE(named(figures, "total_s").within());
  // The rest depends on the size. And fewer chunks share a gate, of which one is the first.
  EXPECT_NEAR(named(figures, "stall_s").error().value_or(0), 1.15, 0.05);
  EXPECT_TRUE(named(figures, "bytes_moved").within());
  slower.places[1] = gpu(1);
  slower.file = "other.json";
  EXPECT_NE(error_of([&] {
              recorded_machine(run.header, slower);
            }).find("other.json: is a calibration of gpu(2) gpu(1) host(0)"),
            std::string::npos);
}

TEST_F(FidelityOfReplays, WhatAProgramMovedIsNoMoveOfAPolicy) {
  RecordedRun run;
  read_run(write("own",
                 [](Recording& recording) {
                   add_program(recording, std::chrono::seconds(9));
                   RecordedMove move;
                   move.start = move.end = std::chrono::seconds(8);
                   move.bytes = chunk_bytes;
                   move.allocation = 2;
                   move.from = gpu_0;
                   move.to = gpu_1;
                   move.moved = true;
                   recording.add(move);
                 }),
           0, run);
  EXPECT_EQ(run.facts.moves, 0u);
  EXPECT_EQ(run.facts.program_moves, 1u);
  const auto events = std::as_const(run.trace).events();
  EXPECT_EQ(std::ranges::count(events, TraceEventKind::place, &TraceEvent::kind), 1);
  EXPECT_EQ(events.back().at, TracePlace(gpu(1))) << "by the number of its place";
  // Array 2 of GPU 0, and the byte that GPU 1 finds at home after the move.
  EXPECT_NEAR(run.facts.own_bytes, run.facts.bytes / 3 + 1, 1);
}

TEST_F(FidelityOfReplays, WhatCannotBeCheckedIsRefused) {
  const auto why = [&](const std::string& path) {
    return error_of([&] {
      RecordedRun run;
      read_run(path, 0, run);
    });
  };
  const std::string lost = write("lost", [](Recording& recording) {
    const RecordedUse unknown = use(Time(1), gpu_0, 7, 0, 8);
    recording.add({&unknown, 1});
  });
  EXPECT_NE(why(lost).find("a use of allocation 7, which does not exist"), std::string::npos);
  EXPECT_NE(why(write("free",
                      [](Recording& recording) {
                        recording.add(RecordedStall{Time(1), Time(1), Time(1), 1, 1});
                      }))
                .find("contains no uses"),
            std::string::npos);
  EXPECT_NE(why("none.rec").find("none.rec: offset 0: cannot be read"), std::string::npos);
  RecordedRun run;
  read_run(write("old", [](Recording& to) { add_program(to, std::chrono::seconds(9)); }), 0, run);
  run.header.scheduler.reset();
  EXPECT_NE(error_of([&] {
              predict(run, recorded_machine(run.header, std::nullopt), {});
            }).find("the recording has no policy"),
            std::string::npos);
  // A library that the recording names is not loaded.
  run.header.scheduler.emplace().policy = "/none/mine.so:uses=3";
  EXPECT_NE(error_of([&] {
              predict(run, recorded_machine(run.header, std::nullopt), {});
            }).find("that of a library, /none/mine.so:uses=3"),
            std::string::npos);
  run.header.scheduler->policy = "two_touch@/none/lab_policies.so";  // The lab has it itself.
  EXPECT_EQ(error_of([&] {
              predict(run, recorded_machine(run.header, std::nullopt), {});
            }).find("library"),
            std::string::npos);
}

TEST(Foreseen, AnErrorIsOfWhatWas) {
  const Foreseen much{"a", "a", 2, 3, 0.4}, none{"b", "b", 0, 0, 0.1}, some{"c", "c", 0, 1, 0.1};
  EXPECT_EQ(much.error(), 0.5);
  EXPECT_FALSE(much.within());
  EXPECT_EQ(none.error(), 0.0);
  EXPECT_TRUE(none.within());
  EXPECT_EQ(some.error(), std::nullopt);
  EXPECT_FALSE(some.within());
}

}  // namespace
}  // namespace vma
