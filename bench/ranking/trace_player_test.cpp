// On a simulated machine, a trace is played to its last event, or refused with the number of the
// first invalid event.

#include "bench/ranking/trace_player.hpp"
#include "lab/trace/trace_files.hpp"

#include "base/units.hpp"
#include "lab/generate/trace_generators.hpp"
#include "unit/recording/record_samples.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace vma {
namespace {

class TracePlayers : public testing::Test {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.driver = "sim:h200x4";
    options.cache_bytes_per_gpu = 16 * MiB;
    options.pressure_limit = std::chrono::milliseconds(0);  // Nothing waits for room.
    options.policy = "stay_put";
    return options;
  }
  std::string write(const std::string& lines) {
    const std::string path = folder_ / "own.jsonl";
    std::ofstream(path) << "{\"vmart_trace\":1,\"name\":\"own\"}\n" << lines;
    return path;
  }
  PlayReport play(const std::string& path, const PlayOptions& how = {},
                  const std::string& router = "hash") {
    const auto trace = open_trace(path, 0);
    TracePlayer player(runtime_, how, router);
    return player.play(*trace);
  }
  /// The message of the Error that playing throws.
  std::string error_of(const std::string& lines) {
    try {
      play(write(lines));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  Runtime runtime_{options()};
};

constexpr const char* alloc_2mib =
    "{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":2097152}\n";

TEST_F(TracePlayers, DoEveryAccessAndGiveMemoryBack) {
  const std::string path = folder_ / "rebalance.vtrace";
  generate_trace({"rebalance",
                  path,
                  {"chunks=2", "chunk_bytes=2097152", "rounds=3", "launch_bytes=1048576"},
                  1});
  const std::size_t before = runtime_.stats().allocations;
  const PlayReport report = play(path);
  ASSERT_EQ(report.devices.size(), 4u);
  for (const DeviceTally& device : report.devices) {
    EXPECT_EQ(device.accesses, 4u * 3 * 4) << "launches of a block, rounds, phases";
    EXPECT_EQ(device.bytes, 4 * MiB * 3 * 4);
  }
  EXPECT_EQ(report.allocations, 4u);
  EXPECT_EQ(report.marks.size(), 4u);
  EXPECT_EQ(runtime_.stats().allocations, before) << "what was freed is given back";
  EXPECT_GT(report.seconds, 0);
}

TEST_F(TracePlayers, RouteWhatTheTraceDoesNotPlaceAsAReplayDoes) {
  std::string lines = alloc_2mib;
  for (int task = 1; task <= 8; ++task) {
    lines +=
        "{\"event\":\"access\",\"time_ns\":1,\"object\":1,\"bytes\":1024,\"passes\":3,"
        "\"use\":\"read_write\",\"task\":" +
        std::to_string(task) + "}\n";
  }
  const PlayReport report = play(write(lines), {}, "round_robin");
  for (const DeviceTally& device : report.devices) {
    EXPECT_EQ(device.accesses, 2u);
    EXPECT_EQ(device.bytes, 2u * 1024 * 6) << "read and written, three times";
  }
}

TEST_F(TracePlayers, DoTheStepsOfTasksInTheirOrder) {
  // GPU 1 waits for the ten steps of GPU 0, and an object that it uses is made after them.
  const PlayReport report = play(
      write(std::string(alloc_2mib) +
            R"({"event":"task","time_ns":0,"task":1,"compute_ns":10000000,"repeat":10,"device":0}
{"event":"access","time_ns":0,"object":1,"bytes":1024,"task":1}
{"event":"access","time_ns":0,"object":1,"bytes":2048,"offset":1024,"task":1}
{"event":"mark","time_ns":0,"tag":"second","after_task":1}
{"event":"alloc","time_ns":0,"object":2,"bytes":2097152,"after_task":1}
{"event":"task","time_ns":0,"task":2,"after":[1],"compute_ns":50000000,"device":1}
{"event":"task","time_ns":0,"task":3,"after":[2],"device":1}
{"event":"access","time_ns":0,"object":2,"bytes":64,"passes":2,"task":3}
{"event":"free","time_ns":0,"object":2}
{"event":"mark","time_ns":0,"tag":"end","after_task":3}
)"));
  EXPECT_EQ(report.steps, 12u);
  EXPECT_EQ(report.devices[0].accesses, 20u);
  EXPECT_EQ(report.devices[0].bytes, 10 * 3072u);
  EXPECT_EQ(report.devices[1].accesses, 1u);
  EXPECT_EQ(report.devices[1].bytes, 128u);
  ASSERT_EQ(report.marks.size(), 2u);
  EXPECT_EQ(report.marks[0].second, "second");
  EXPECT_GE(report.marks[0].first, 0.100) << "ten steps of 10 ms";
  EXPECT_GE(report.marks[1].first, report.marks[0].first + 0.049) << "what computes takes time";
  EXPECT_GE(report.seconds, 0.150);
}

TEST_F(TracePlayers, KeepTheTasksOfARequestTogether) {
  std::string lines = alloc_2mib;
  for (int task = 1; task <= 8; ++task) {
    lines += "{\"event\":\"task\",\"time_ns\":0,\"task\":" + std::to_string(task) +
             ",\"request\":" + std::to_string(task % 2 + 1) +
             "}\n{\"event\":\"access\",\"time_ns\":0,\"object\":1,\"bytes\":1024,\"task\":" +
             std::to_string(task) + "}\n";
  }
  const PlayReport report = play(write(lines), {}, "round_robin");
  EXPECT_EQ(report.devices[0].accesses + report.devices[1].accesses, 8u);
  EXPECT_EQ(report.devices[0].accesses, 4u) << "two requests, on two of four GPUs";
}

TEST_F(TracePlayers, LayObjectsWhereTheTraceOrTheirFirstUserIs) {
  const PlayReport report = play(write(
      "{\"event\":\"alloc\",\"time_ns\":0,\"object\":1,\"bytes\":4194304,\"home\":\"host(0)\"}\n"
      "{\"event\":\"alloc\",\"time_ns\":0,\"object\":2,\"bytes\":2097152}\n"
      "{\"event\":\"access\",\"time_ns\":1,\"object\":2,\"bytes\":16,\"device\":3}\n"));
  std::size_t at_host = 0, at_gpu = 0;
  for (const RuntimeStats::PlaceStats& place : runtime_.stats().places) {
    if (place.at == host(0)) at_host = place.allocated_bytes;
    if (place.at == gpu(3)) at_gpu = place.allocated_bytes;
  }
  EXPECT_EQ(at_host, 4 * MiB);
  EXPECT_EQ(at_gpu, 2 * MiB);
  EXPECT_EQ(report.spilled, 0u);
}

TEST_F(TracePlayers, LeaveRoomForWhatLiveMovesNeed) {
  PlayOptions how;
  how.hbm_bytes = 2 * MiB;
  how.chunk_bytes = 2 * MiB;
  const TracePlayer player(runtime_, how, "hash");
  void* const memory = runtime_.alloc(2 * MiB, gpu(0));
  EXPECT_EQ(runtime_.migrate_async(memory, gpu(1)).wait().chunks_live, 1);
  runtime_.free(memory);
}

TEST_F(TracePlayers, MakeAtTheHostWhatGpusDoNotHold) {
  PlayOptions how;
  how.hbm_bytes = 2 * MiB;
  how.chunk_bytes = 2 * MiB;
  how.peak_bytes = (4 * 2 + 6) * MiB;
  const TracePlayer player(runtime_, how, "hash");
  const auto cached_at = [&](Place at) {
    const auto places = runtime_.stats().places;
    return std::ranges::find(places, at, &RuntimeStats::PlaceStats::at)->cached_bytes;
  };
  EXPECT_EQ(cached_at(host(0)), 6 * MiB);
  EXPECT_EQ(cached_at(gpu(3)), 2 * MiB);
}

TEST_F(TracePlayers, SpillWhatHasNoRoomAndSaySo) {
  PlayOptions how;
  how.hbm_bytes = 4 * MiB;
  how.chunk_bytes = 2 * MiB;
  std::string lines;
  for (int object = 1; object <= 3; ++object) {
    lines +=
        "{\"event\":\"alloc\",\"time_ns\":0,\"bytes\":2097152,\"home\":\"gpu(1)\",\"object\":" +
        std::to_string(object) + "}\n";
  }
  const PlayReport report = play(write(lines), how);
  EXPECT_EQ(report.allocations, 3u);
  EXPECT_EQ(report.spilled, 1u);
}

TEST_F(TracePlayers, RefuseWhatDoesNotFit) {
  EXPECT_NE(error_of("{\"event\":\"access\",\"time_ns\":1,\"object\":2,\"bytes\":16}\n")
                .find("event 1: access of object 2, which does not live"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(alloc_2mib) + alloc_2mib)
                .find("event 2: alloc of object 1, which lives already"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(alloc_2mib) +
                     "{\"event\":\"access\",\"time_ns\":1,\"object\":1,\"bytes\":2097153}\n")
                .find("past its end"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(alloc_2mib) + "{\"event\":\"task\",\"time_ns\":0,\"task\":1}\n"
                                               "{\"event\":\"task\",\"time_ns\":0,\"task\":1}\n")
                .find("event 3: of a task that was declared before"),
            std::string::npos);
  EXPECT_THROW(play(write(alloc_2mib), {}, "least_loaded"), Error);
}

}  // namespace
}  // namespace vma
