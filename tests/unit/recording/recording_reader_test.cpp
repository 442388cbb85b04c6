// Goal: the reader trusts no input. A file that is not a recording is refused with file and offset;
// a damaged block costs only that block; no input crashes the reader.

#include "base/executor.hpp"
#include "recording/recording.hpp"
#include "recording/reading/recording_reader.hpp"
#include "support/test_run.hpp"
#include "unit/recording/record_samples.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace vma {
namespace {

constexpr std::uint32_t records_a_block = 20;

class RecordingReaderTest : public testing::Test {
 protected:
  RecordingReaderTest() : path_(folder_ / "test.rec") {
    header_bytes_ =
        write_recording_header(sample_header(), write_machine_json(sample_header())).size();
  }

  /// A file with that many blocks; the records of block n are frees of allocation n.
  std::vector<std::uint8_t> make(std::uint64_t blocks) {
    RecordingOptions options;
    options.directory = folder_.path().string();
    ThreadedExecutor threads;
    {
      Recording recording(threads, options, sample_header());
      for (std::uint64_t block = 0; block < blocks; ++block) {
        block_offsets_.push_back(header_bytes_ + recording.stats().bytes_written);
        for (std::uint32_t record = 0; record < records_a_block; ++record) {
          recording.add(RecordedFree{Time(1'000'000 * record), block});
        }
        recording.write_all();
      }
    }
    return read_bytes(folder_ / fmt::format("vmart-{}-1.rec", ::getpid()));
  }

  /// The number of records that the reader finds in each block.
  std::vector<std::uint32_t> count(RecordingReader& reader, std::size_t blocks) {
    std::vector<std::uint32_t> found(blocks);
    while (const RecordedEvent* event = reader.next()) {
      ++found.at(std::get<RecordedFree>(*event).allocation);
    }
    return found;
  }

  void expect_refused(const std::vector<std::uint8_t>& bytes, const std::string& why) {
    write_bytes(path_, bytes);
    try {
      RecordingReader reader(path_);
      ADD_FAILURE() << "not refused: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(path_ + ": " + why), std::string::npos)
          << error.what();
    }
  }

  TemporaryFolder folder_;
  const std::string path_;
  std::size_t header_bytes_ = 0;
  std::vector<std::uint64_t> block_offsets_;
};

using Counts = std::vector<std::uint32_t>;

TEST_F(RecordingReaderTest, RefusesWhatIsNoRecordingOfItsVersion) {
  const std::vector<std::uint8_t> good = make(1);
  EXPECT_THROW(RecordingReader(folder_ / "none.rec"), Error);
  expect_refused({}, "offset 0: is not a recording");
  expect_refused({'V', 'M', 'A', 'R', 'T', 'R', 'E', 'C'}, "offset 8: ends within its header");
  const auto changed = [&good](std::size_t at, std::uint8_t to) {
    std::vector<std::uint8_t> bytes = good;
    bytes[at] = to;
    return bytes;
  };
  expect_refused(changed(0, 'W'), "offset 0: is not a recording");
  expect_refused(changed(8, 2), "offset 8: is of version 2, not 1");
  expect_refused(changed(15, 0x7F), "offset 12: claims a header of");
  expect_refused(changed(14, 1), "offset 12: ends within its header");
  expect_refused(changed(20, good[20] ^ 1u), "offset 36: the header's checksum is wrong");
  expect_refused(changed(50, good[50] ^ 1u), "offset 36: the header's checksum is wrong");
}

TEST_F(RecordingReaderTest, ADamagedBlockCostsItselfOnly) {
  const std::vector<std::uint8_t> good = make(4);
  // The marker, the length, the count, the checksum, and both ends of the payload.
  const std::uint64_t end = block_offsets_[2] - 1;
  const std::uint64_t begin = block_offsets_[1];
  for (const std::uint64_t at :
       {begin, begin + 4, begin + 6, begin + 8, begin + 12, begin + 16, end}) {
    SCOPED_TRACE(fmt::format("byte {} of the second block", at - begin));
    std::vector<std::uint8_t> bytes = good;
    bytes[at] ^= 0x10;
    write_bytes(path_, bytes);
    RecordingReader reader(path_);
    EXPECT_EQ(count(reader, 4), (Counts{20, 0, 20, 20}));
    ASSERT_EQ(reader.damages().size(), 1u);
    EXPECT_EQ(reader.damages()[0].offset, begin);
    EXPECT_FALSE(reader.torn());
  }
}

TEST_F(RecordingReaderTest, AFileCutAnywhereKeepsItsWholeBlocks) {
  const std::vector<std::uint8_t> good = make(3);
  block_offsets_.push_back(good.size());
  for (std::size_t size = header_bytes_; size <= good.size(); ++size) {
    write_bytes(path_, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    RecordingReader reader(path_);
    Counts expected(3);
    bool at_border = false;
    for (std::size_t block = 0; block <= 3; ++block) {
      if (block > 0 && block_offsets_[block] <= size) expected[block - 1] = 20;
      at_border = at_border || block_offsets_[block] == size;
    }
    ASSERT_EQ(count(reader, 3), expected) << size;
    ASSERT_EQ(reader.torn(), !at_border) << size;
    ASSERT_TRUE(reader.damages().empty()) << size;
  }
}

TEST_F(RecordingReaderTest, StopsAtSoManyDamages) {
  std::vector<std::uint8_t> bytes = make(1);
  bytes.resize(header_bytes_);
  for (std::size_t block = 0; block < 3 * RecordingReader::damages_max; ++block) {
    bytes.insert(bytes.end(), {'V', 'B', 'L', 'K', 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1});
  }
  write_bytes(path_, bytes);
  RecordingReader reader(path_);
  EXPECT_EQ(reader.next(), nullptr);
  EXPECT_EQ(reader.damages().size(), RecordingReader::damages_max);
}

/// Bit flips and truncations, by seed. Some payloads also change with a matching checksum, so that
/// garbage reaches the decoder.
TEST_F(RecordingReaderTest, NoGarbageCrashesIt) {
  std::vector<std::uint8_t> good = make(3);
  RecordSamples samples(run_seed());
  std::mt19937_64 random(run_seed());
  const int rounds = long_run() ? 20'000 : 500;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(fmt::format("VMART_SEED={}, round {}", run_seed(), round));
    std::vector<std::uint8_t> bytes = good;
    const std::size_t from = round % 4 == 0 ? 0 : header_bytes_;
    for (auto flips = random() % 8; flips > 0; --flips) {
      bytes[from + random() % (bytes.size() - from)] ^=
          static_cast<std::uint8_t>(1u << random() % 8);
    }
    if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    write_bytes(path_, bytes);
    try {
      RecordingReader reader(path_);
      std::size_t records = 0;
      while (reader.next() != nullptr) ++records;
      ASSERT_LE(records, 3 * records_a_block);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::invalid_argument);
    }
  }
}

TEST_F(RecordingReaderTest, NoPayloadCrashesTheDecoder) {
  RecordSamples samples(run_seed());
  std::mt19937_64 random(run_seed());
  const int rounds = long_run() ? 200'000 : 5'000;
  RecordedEvent event;
  std::size_t records = 0;
  for (int round = 0; round < rounds; ++round) {
    BlockBuilder builder;
    for (int count = 0; count < 3; ++count) {
      builder.add(samples.decision());
      const RecordedUse use = samples.use();
      builder.add(std::span(&use, 1));
    }
    std::vector<std::uint8_t> payload = builder.take();
    for (auto flips = random() % 6; flips > 0; --flips) {
      payload[random() % payload.size()] = static_cast<std::uint8_t>(random());
    }
    payload.resize(random() % (payload.size() + 1));
    payload.shrink_to_fit();  // So that a sanitizer detects reads past the end.
    BlockDecoder decoder(payload, 3);
    std::size_t of_this = 0;
    while (decoder.next(event)) ++of_this;
    ASSERT_LE(of_this, payload.size());
    records += of_this;
  }
  EXPECT_GT(records, static_cast<std::size_t>(rounds)) << "some survive, so the fuzz goes deep";
}

// The standard check value of CRC-32, for the whole input and for any two parts.
TEST(Crc32, IsThatOfZlib) {
  const std::vector<std::uint8_t> digits{'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(crc32_of(digits), 0xCBF43926u);
  EXPECT_EQ(crc32_of({}), 0u);
  for (std::size_t first = 0; first <= digits.size(); ++first) {
    EXPECT_EQ(crc32_of(std::span(digits).first(first), std::span(digits).subspan(first)),
              0xCBF43926u);
  }
}

}  // namespace
}  // namespace vma
