// Goal: a stored calibration is read back unchanged, and no other file is mistaken for one. Method:
// calibration files that are each broken in one way.
#include "costs/calibration_file.hpp"

#include "base/units.hpp"
#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "unit/costs/cache_folder.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace vma {
namespace {

PlaceId at(std::size_t place) {
  return PlaceId{static_cast<std::uint8_t>(place)};
}

/// One GPU and a host node; each cell has a different value.
Calibration sample(const std::string& machine = "a machine") {
  Calibration made;
  made.machine = machine;
  made.date = "2026-11-21T10:43:00Z";
  made.places = {gpu(0), host(1)};
  made.costs = MachineCosts(1, 2);
  double number = 1.25;
  for (const PlaceId row : {at(0), at(1)}) {
    for (const PlaceId column : {at(0), at(1)}) {
      const auto next = [&] { return number *= 3; };
      made.costs.access_rate(row, column) = next();
      made.costs.copy_rate(row, column) = next();
      made.costs.move_per_byte(row, column) = 1 / next();
      made.costs.stall_per_byte(row, column) = 1e-13 / next();
      made.costs.access_latency(row, column) = Time(700 + index(column));
      made.costs.move_fixed(row, column) = Time(7'000 + index(column));
      made.costs.stall_fixed(row, column) = Time(70'000 + index(row));
    }
  }
  made.costs.rank();
  made.gaps = {{Time(2'345)}, {Time(15'678)}};
  made.late = {Time(45'000'000), Time(250'000)};
  made.peers = {{{LinkKind::same}}, {664e9}};
  made.estimates = {"latencies: \"none\""};
  return made;
}

std::string replaced(std::string text, const std::string& old, const std::string& with) {
  const std::size_t found = text.find(old);
  EXPECT_NE(found, std::string::npos) << old;
  return text.replace(found, old.size(), with);
}

TEST(CalibrationFile, ComesBackAsItWas) {
  const Calibration made = sample();
  const Calibration read = parse_calibration(to_json(made), "file");
  EXPECT_EQ(read.machine, made.machine);
  EXPECT_EQ(read.date, made.date);
  EXPECT_EQ(read.file, "file");
  EXPECT_EQ(read.places, made.places);
  EXPECT_EQ(read.estimates, made.estimates);
  EXPECT_EQ(read.costs.gpus(), 1u);
  for (const PlaceId row : {at(0), at(1)}) {
    for (const PlaceId column : {at(0), at(1)}) {
      EXPECT_DOUBLE_EQ(read.costs.access_rate(row, column), made.costs.access_rate(row, column));
      EXPECT_DOUBLE_EQ(read.costs.copy_rate(row, column), made.costs.copy_rate(row, column));
      EXPECT_EQ(read.costs.move_fixed(row, column), made.costs.move_fixed(row, column));
      EXPECT_DOUBLE_EQ(read.costs.move_per_byte(row, column),
                       made.costs.move_per_byte(row, column));
      EXPECT_EQ(read.costs.stall_fixed(row, column), made.costs.stall_fixed(row, column));
      EXPECT_DOUBLE_EQ(read.costs.stall_per_byte(row, column),
                       made.costs.stall_per_byte(row, column));
      EXPECT_EQ(read.costs.access_latency(row, column), made.costs.access_latency(row, column));
    }
  }
  EXPECT_EQ(read.costs.by_speed(at(0)).size(), 2u);
  EXPECT_EQ(read.gaps.kernel, made.gaps.kernel);
  EXPECT_EQ(read.gaps.round, made.gaps.round);
  EXPECT_EQ(read.peers, made.peers);
  EXPECT_EQ(read.late.wait, made.late.wait);
  EXPECT_EQ(read.late.longer, made.late.longer);
}

TEST(CalibrationFile, FilesOfBeforeHaveNoLateStops) {
  std::string text = to_json(sample());
  text = replaced(std::move(text), ",\"late_wait_ns\":45000000,\"late_stall_ns\":250000", "");
  const Calibration read = parse_calibration(text, "file");
  EXPECT_EQ(read.late.wait, Time::zero());
  EXPECT_EQ(read.late.longer, Time::zero());
}

TEST(CalibrationFile, FilesOfBeforeHaveNoGapsAndLinks) {
  std::string text = to_json(sample());
  text = replaced(std::move(text), ",\"kernel_gap_ns\":[2345]", "");
  text = replaced(std::move(text), ",\"round_gap_ns\":[15678]", "");
  text = replaced(std::move(text), ",\"peer_links\":[[\"same\"]]", "");
  text = replaced(std::move(text), ",\"peers_both_ways_bytes_s\":[6.64E11]", "");
  const Calibration read = parse_calibration(text, "file");
  EXPECT_TRUE(read.gaps.kernel.empty());
  EXPECT_TRUE(read.gaps.round.empty());
  EXPECT_EQ(read.peers, PeerLinks());
}

TEST(CalibrationFile, ThoseOfMeasurementsAreRead) {
  const std::string folder = VMART_TEST_CALIBRATIONS;
  EXPECT_EQ(read_calibration(folder + "/calibration_h200x1.json").costs.gpus(), 1u);
  EXPECT_EQ(read_calibration(folder + "/calibration_h200x4.json").costs.gpus(), 4u);
}

TEST(CalibrationFile, RefusesLinksThatAreNone) {
  const std::string good = to_json(sample());
  const struct {
    const char *piece, *with, *says;
  } wrong[] = {
      {"[[\"same\"]]", "[[\"nvlink\"]]", "peer_links: says \"same\" of two GPUs, or not of one"},
      {"[[\"same\"]]", "[[\"string\"]]", "peer_links: contains something other than same, nvlink"},
      {"[[\"same\"]]", "[[1]]", "peer_links: contains something other than same, nvlink"},
      {"[[\"same\"]]", "[[\"same\",\"pcie\"]]", "peer_links: has a row without a cell for each"},
      {"[[\"same\"]]", "[\"same\"]", "peer_links: has a row without a cell for each"},
      {"[[\"same\"]]", "[[\"same\"],[\"pcie\"]]", "peer_links: does not have a row for each GPU"},
      {"[[\"same\"]]", "\"same\"", "peer_links: is not a list"},
      {"[6.64E11]", "[-1]", "peers_both_ways_bytes_s: [0] is not a number from 0 to"},
      {"[6.64E11]", "[1E300]", "peers_both_ways_bytes_s: [0] is not a number from 0 to"},
      {"[6.64E11]", "[\"fast\"]", "peers_both_ways_bytes_s: [0] is not a number from 0 to"},
      {"[6.64E11]", "[1,2]", "peers_both_ways_bytes_s: does not have a number for each GPU"},
      {"[6.64E11]", "6.64E11", "peers_both_ways_bytes_s: is not a list"},
      {"[2345]", "[-1]", "kernel_gap_ns: [0] is not a number from 0 to"},
      {"[2345]", "[1,2]", "kernel_gap_ns: does not have a number for each GPU"},
  };
  for (const auto& it : wrong) {
    SCOPED_TRACE(it.with);
    const std::string text = replaced(good, it.piece, it.with);
    EXPECT_TRUE(says(
        expect_error(ErrorKind::invalid_argument, [&] { parse_calibration(text, "file.json"); }),
        std::string("file.json: ") + it.says));
  }
}

TEST(CalibrationFile, RefusesWhatIsNotWhole) {
  const std::string good = to_json(sample());
  const std::string broken[] = {
      "",
      "{",
      "[]",
      "null",
      "{}",
      std::string(1'000, '['),
      std::string("\0\xff", 2),
      good.substr(0, good.size() / 2),
      good + "{}",
      replaced(good, "\"version\":1", "\"version\":0"),
      replaced(good, "\"version\":1", "\"version\":2"),
      replaced(good, "vmart calibration", "a letter"),
      replaced(good, "\"machine\"", "\"engine\""),
      replaced(good, "\"date\"", "\"extra\":1,\"date\""),
      replaced(good, "gpu(0)", "disk(0)"),
      replaced(good, "\"gpu(0)\",", ""),
      replaced(good, "3.75E0", "-3.75E0"),
      replaced(good, "3.75E0", "1E300"),
      replaced(good, "3.75E0", "\"fast\""),
      replaced(good, "3.75E0", "3.75E0,1"),
      replaced(good, "\"late_wait_ns\":45000000", "\"late_wait_ns\":0"),
      replaced(good, "\"late_wait_ns\":45000000", "\"late_wait_ns\":-1"),
      replaced(good, "\"late_stall_ns\":250000", "\"late_stall_ns\":\"long\""),
  };
  for (const std::string& text : broken) {
    SCOPED_TRACE(text.substr(0, 100));
    EXPECT_TRUE(says(
        expect_error(ErrorKind::invalid_argument, [&] { parse_calibration(text, "file.json"); }),
        text.find("disk") == std::string::npos ? "file.json" : "disk"));
  }
}

TEST(CalibrationFile, IsTheUsersOwn) {
  CacheFolder folder;
  const std::string file = folder.path() + "/deep/er/file.json";  // Creates the folders.
  write_calibration(file, sample());
  struct stat status {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  write_calibration(file, sample("the next"));
  EXPECT_EQ(read_calibration(file).machine, "the next");
}

TEST(CalibrationFile, IsFoundByItsFingerprintOnly) {
  CacheFolder folder;
  const std::string file = folder.path() + "/" + calibration_file_name("mine");
  EXPECT_FALSE(stored_calibration(folder.path(), "mine"));
  EXPECT_FALSE(stored_calibration("", "mine"));
  write_calibration(file, sample("mine"));
  EXPECT_TRUE(stored_calibration(folder.path(), "mine"));
  EXPECT_FALSE(stored_calibration(folder.path(), "yours"));
  // A calibration of another machine under the name of this one.
  write_calibration(file, sample("yours"));
  EXPECT_FALSE(stored_calibration(folder.path(), "mine"));
  testing::internal::CaptureStderr();
  folder.write(calibration_file_name("mine"), "{");
  EXPECT_FALSE(stored_calibration(folder.path(), "mine"));
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find(file), std::string::npos) << warning;
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_FALSE(stored_calibration(folder.path(), "mine"));
}

TEST(CalibrationFile, IsWholeWhoeverWritesBesides) {
  CacheFolder folder;
  const std::string file = folder.path() + "/file.json";
  write_calibration(file, sample());
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&, writer] {
      const Calibration mine = sample(std::string(1'000 * (writer + 1), 'x'));
      for (int i = 0; i < 10; ++i) write_calibration(file, mine);
    });
  }
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(read_calibration(file).machine.empty());
  for (std::thread& writer : writers) writer.join();
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& left : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1u);  // No temporary file is left.
}

TEST(CalibrationFile, FolderIsTheVariablesThenTheUsersCache) {
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  const std::string cache =
      std::getenv("XDG_CACHE_HOME") == nullptr ? "" : std::getenv("XDG_CACHE_HOME");
  setenv("VMART_CACHE_DIR", "/one", 1);
  setenv("XDG_CACHE_HOME", "/two", 1);
  setenv("HOME", "/three", 1);
  EXPECT_EQ(calibration_folder(), "/one");
  unsetenv("VMART_CACHE_DIR");
  EXPECT_EQ(calibration_folder(), "/two/vmart");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(calibration_folder(), "/three/.cache/vmart");
  unsetenv("HOME");
  EXPECT_EQ(calibration_folder(), "");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

TEST(StoredCalibration, IsKeptByTheRuntimeAndFoundAgain) {
  CacheFolder folder;
  RuntimeRig rig("test-2");
  const Calibration made = rig.runtime().calibrate();
  ASSERT_FALSE(made.file.empty());
  Machinery& machinery = *parts_of(rig.runtime()).machinery;
  const std::string fingerprint = machine_fingerprint(rig.machine(), machinery.topology);
  const auto stored = stored_calibration(folder.path(), fingerprint);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->places, made.places);
  EXPECT_EQ(stored->estimates, made.estimates);
  EXPECT_DOUBLE_EQ(stored->costs.copy_rate(at(0), at(1)), made.costs.copy_rate(at(0), at(1)));
  EXPECT_EQ(stored->costs.move_fixed(at(2), at(1)), made.costs.move_fixed(at(2), at(1)));
  EXPECT_EQ(made.machine, fingerprint);
  EXPECT_EQ(made.date.size(), std::string("2026-11-21T10:43:00Z").size());
}

TEST(StoredCalibration, IsGoodWhereItCannotBeKept) {
  CacheFolder folder;
  folder.write("a file", "");
  // Not a folder, so that creation fails even for root.
  setenv("VMART_CACHE_DIR", (folder.path() + "/a file").c_str(), 1);
  RuntimeRig rig("test-2");
  const Calibration made = rig.runtime().calibrate();
  EXPECT_TRUE(made.file.empty());
  EXPECT_GT(made.costs.copy_rate(at(0), at(1)), 0);
}

}  // namespace
}  // namespace vma
