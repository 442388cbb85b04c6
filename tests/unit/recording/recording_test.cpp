// Goal: everything recorded is in the files; if that is impossible, the files say so: limits, full
// disks, missing folders, slow disks.

#include "recording/recording.hpp"
#include "recording/reading/recording_reader.hpp"
#include "support/test_run.hpp"
#include "unit/recording/record_samples.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <set>

namespace vma {
namespace {

/// Limits the size of every file that this process writes, as a full disk would.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
};

/// Blocks in `write` until it is released.
class SlowSink : public BlockSink {
 public:
  void write(const DiskBlock& block, const Loss& lost_before) noexcept override {
    MutexLock lock(mutex_);
    standing_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    records += block.records;
    lost += lost_before;
  }
  void finish(const Loss& lost_before) noexcept override { lost += lost_before; }

  void await_block() {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this] { return standing_; });
  }
  void open() {
    const MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::uint64_t records = 0;  // Read it only after the queue is closed.
  Loss lost;

 private:
  Mutex mutex_;
  Condition changed_;
  bool standing_ = false, open_ = false;
};

std::string file_name(int number) {
  return fmt::format("vmart-{}-{}.rec", ::getpid(), number);
}

/// All records of one file, which must be complete.
std::vector<RecordedEvent> read_whole(const std::string& path) {
  std::vector<RecordedEvent> events;
  RecordingReader reader(path);
  while (const RecordedEvent* event = reader.next()) events.push_back(*event);
  EXPECT_TRUE(reader.damages().empty()) << path << ": " << reader.damages()[0].reason;
  EXPECT_FALSE(reader.torn()) << path;
  return events;
}

class RecordingTest : public testing::Test {
 protected:
  RecordingOptions options() {
    RecordingOptions options;
    options.directory = folder_.path().string();
    return options;
  }
  static std::vector<RecordedUse> uses(std::size_t count) {
    return std::vector<RecordedUse>(count, {Time(1), 1, 0, 4096});
  }

  ThreadedExecutor threads_;
  TemporaryFolder folder_;
};

TEST_F(RecordingTest, KeepsEveryRecordInOrderOverManyFiles) {
  RecordSamples samples(run_seed());
  std::vector<RecordedEvent> written;
  RecordingOptions small = options();
  small.file_bytes_max = 150'000;
  small.blocks_max = 1000;
  {
    Recording recording(threads_, small, sample_header());
    for (int count = 0; count < 2000; ++count) {
      written.push_back(samples.any());
      std::visit(
          [&recording](const auto& record) {
            if constexpr (std::is_same_v<decltype(record), const RecordedUse&>) {
              recording.add(std::span(&record, 1));
            } else if constexpr (!std::is_same_v<decltype(record), const RecordedGap&>) {
              recording.add(record);
            }
          },
          written.back());
      if (std::holds_alternative<RecordedGap>(written.back())) written.pop_back();
    }
    recording.write_all();
    EXPECT_EQ(recording.stats().records, written.size());
    EXPECT_EQ(recording.stats().records_lost, 0u);
  }
  std::vector<RecordedEvent> read;
  const std::size_t files = folder_.files().size();
  EXPECT_GT(files, 3u) << "the limit makes several of them";
  for (std::size_t number = 1; number <= files; ++number) {
    const std::string path = folder_ / file_name(static_cast<int>(number));
    EXPECT_LE(std::filesystem::file_size(path), small.file_bytes_max);
    EXPECT_EQ(RecordingReader(path).header().file, number);
    EXPECT_EQ(RecordingReader(path).header().first_file, 1u);
    for (RecordedEvent& event : read_whole(path)) read.push_back(std::move(event));
  }
  ASSERT_EQ(read.size(), written.size()) << "VMART_SEED=" << run_seed();
  for (std::size_t at = 0; at < read.size(); ++at) ASSERT_TRUE(same(read[at], written[at])) << at;
}

TEST_F(RecordingTest, SaysWhichMachineItIsOf) {
  { Recording(threads_, options(), sample_header()).add(RecordedFree{Time(1), 1}); }
  const RecordingReader reader(folder_ / file_name(1));
  const RecordingHeader expected = sample_header();
  const RecordingHeader& header = reader.header();
  EXPECT_EQ(header.clock_start_utc_ns, expected.clock_start_utc_ns);
  EXPECT_EQ(header.process, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(write_machine_json(header), write_machine_json(expected));
  EXPECT_EQ(header.costs.copy_rate(PlaceId{2}, PlaceId{1}), 2e11 + 7 / 4.0);
  EXPECT_EQ(header.costs.access_latency(PlaceId{1}, PlaceId{2}), Time(505));
  EXPECT_EQ(header.places[2].place, host(0));
  EXPECT_EQ(header.gaps.round, expected.gaps.round);
  EXPECT_EQ(header.peers, expected.peers);
}

TEST(RecordingHeader, OfBeforeHasNoGapsAndLinks) {
  RecordingHeader bare = sample_header(), read;
  bare.gaps = {};
  bare.peers = {};
  std::string text = write_machine_json(bare);
  for (const char* key :
       {"kernel_gap_ns", "round_gap_ns", "peer_links", "peers_both_ways_bytes_s"}) {
    const std::string member = fmt::format(",\"{}\":[]", key);
    ASSERT_NE(text.find(member), std::string::npos) << text;
    text.erase(text.find(member), member.size());
  }
  read_machine_json(text, "file", read);
  EXPECT_EQ(read.peers, PeerLinks());
  EXPECT_TRUE(read.gaps.kernel.empty());
  EXPECT_EQ(read.costs.copy_rate(PlaceId{2}, PlaceId{1}), 2e11 + 7 / 4.0);
}

TEST_F(RecordingTest, LeavesFilesOfOthersAlone) {
  write_bytes(folder_ / file_name(1), {1, 2, 3});
  { Recording(threads_, options(), sample_header()).add(RecordedFree{Time(1), 1}); }
  EXPECT_EQ(read_bytes(folder_ / file_name(1)), (std::vector<std::uint8_t>{1, 2, 3}));
  EXPECT_EQ(read_whole(folder_ / file_name(2)).size(), 1u);
  EXPECT_EQ(RecordingReader(folder_ / file_name(2)).header().first_file, 2u);
}

TEST_F(RecordingTest, SplitsAnAllocationThatLiesInManyPlaces) {
  RecordedAllocation made{Time(9), 3, 0, 0, 0, "t", 0, {}};
  for (std::uint32_t run = 0; run < 2500; ++run) {
    made.places.push_back({PlaceId{static_cast<std::uint8_t>(run % 3)}, 2});
  }
  { Recording(threads_, options(), sample_header()).add(made); }
  const std::vector<RecordedEvent> read = read_whole(folder_ / file_name(1));
  ASSERT_EQ(read.size(), 3u);
  std::vector<PlaceRun> places;
  for (const RecordedEvent& event : read) {
    const auto& part = std::get<RecordedAllocation>(event);
    EXPECT_EQ(part.first_slot, places.size() * 2);
    places.insert(places.end(), part.places.begin(), part.places.end());
  }
  EXPECT_EQ(places, made.places);
}

TEST_F(RecordingTest, FlushesWhatIsASecondOldAndNotBefore) {
  SlowSink sink;
  sink.open();
  RecordingOptions often = options();
  Recording recording(threads_, often, sink);
  recording.flush(std::chrono::seconds(10));
  recording.add(RecordedFree{Time(1), 1});
  recording.flush(std::chrono::milliseconds(10'999));
  recording.add(RecordedFree{Time(1), 1});
  recording.flush(std::chrono::seconds(11));
  sink.await_block();
  recording.add(RecordedFree{Time(1), 1});
  recording.write_all();
  EXPECT_EQ(sink.records, 3u);
}

TEST_F(RecordingTest, DropsAndCountsWhatASlowDiskDoesNotTake) {
  SlowSink sink;
  std::uint64_t records = 0, lost = 0;
  {
    RecordingOptions few = options();
    few.blocks_max = 2;
    Recording recording(threads_, few, sink);
    recording.add(uses(1));
    recording.flush(std::chrono::seconds(1));
    sink.await_block();  // The sink has one block; the queue has room for two more.
    for (int batch = 0; batch < 10; ++batch) recording.add(uses(30'000));
    records = recording.stats().records;
    lost = recording.stats().records_lost;
    EXPECT_EQ(records, 300'001u);
    EXPECT_GT(lost, 200'000u);
    sink.open();
  }
  EXPECT_GE(sink.lost.records, lost);
  EXPECT_EQ(sink.records + sink.lost.records, records) << "each record is written or told of";
}

TEST_F(RecordingTest, AFullDiskCostsRecordsAndLeavesAReadableFileWithAGap) {
  std::uint64_t lost = 0;
  {
    Recording recording(threads_, options(), sample_header());
    recording.add(uses(100));
    recording.write_all();
    {
      const FileLimit limit(std::filesystem::file_size(folder_ / file_name(1)) + 1000);
      recording.add(uses(5'000));
      recording.write_all();
      recording.add(uses(6'000));
      recording.write_all();
    }
    lost = recording.stats().records_lost;
    EXPECT_EQ(lost, 11'000u);
    EXPECT_GE(recording.stats().write_failures, 2u);
    recording.add(uses(7));
    recording.write_all();
  }
  const std::vector<RecordedEvent> read = read_whole(folder_ / file_name(1));
  std::size_t written = 0;
  RecordedGap missing;
  for (const RecordedEvent& event : read) {
    const auto* gap = std::get_if<RecordedGap>(&event);
    if (gap == nullptr) {
      ++written;
      continue;
    }
    EXPECT_EQ(written, 100u) << "a gap stands where records are missing";
    missing.records += gap->records;
    missing.blocks += gap->blocks;
  }
  EXPECT_EQ(written, 107u);
  EXPECT_EQ(missing, (RecordedGap{lost, 2}));
}

TEST_F(RecordingTest, ADiskWithoutRoomForAHeaderFillsWithNoNames) {
  {
    Recording recording(threads_, options(), sample_header());
    const FileLimit limit(100);
    for (int block = 0; block < 5; ++block) {
      recording.add(uses(10));
      recording.write_all();
    }
    EXPECT_EQ(recording.stats().records_lost, 50u);
  }
  ASSERT_EQ(folder_.files(), std::vector<std::string>{file_name(1)});
  const std::vector<RecordedEvent> read = read_whole(folder_ / file_name(1));
  ASSERT_EQ(read.size(), 1u) << "at the end there was room for the gap";
  EXPECT_EQ(std::get<RecordedGap>(read[0]), (RecordedGap{50, 5}));
}

TEST_F(RecordingTest, AFolderThatCannotBeMadeIsCountedAndLoggedOnce) {
  write_bytes(folder_ / "file", {1});
  RecordingOptions elsewhere = options();
  elsewhere.directory = folder_ / "file/under";
  testing::internal::CaptureStderr();
  {
    Recording recording(threads_, elsewhere, sample_header());
    for (int block = 0; block < 3; ++block) {
      recording.add(uses(10));
      recording.write_all();
    }
    EXPECT_EQ(recording.stats().records_lost, 30u);
    EXPECT_EQ(recording.stats().write_failures, 3u);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("cannot write the recording"), std::string::npos) << log;
  EXPECT_EQ(log.find("cannot write the recording"), log.rfind("cannot write the recording")) << log;
}

TEST_F(RecordingTest, GoesOnInTheNextFileWhereTheFolderVanishes) {
  RecordingOptions inner = options();
  inner.directory = folder_ / "inner";
  {
    Recording recording(threads_, inner, sample_header());
    recording.add(uses(10));
    recording.write_all();
    std::filesystem::remove_all(inner.directory);
    recording.add(uses(20));
  }
  const std::string second = inner.directory + "/" + file_name(2);
  EXPECT_EQ(read_whole(second).size(), 20u);
  EXPECT_EQ(RecordingReader(second).header().first_file, 1u);
}

TEST_F(RecordingTest, WaitsForASlowDiskUntilTheDeadlineOnly) {
  SlowSink sink;
  {
    Recording recording(threads_, options(), sink);
    recording.add(uses(10));
    EXPECT_FALSE(recording.write_all(SteadyClock().now() + std::chrono::milliseconds(5)));
    sink.open();
    EXPECT_TRUE(recording.write_all());
  }
  EXPECT_EQ(sink.records, 10u);
}

}  // namespace
}  // namespace vma
