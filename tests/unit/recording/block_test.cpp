// Goal: records survive encoding and decoding, and the bytes are those worked out in
// docs/reference/recordings.md.

#include "recording/block_builder.hpp"
#include "recording/reading/recording_reader.hpp"
#include "support/test_run.hpp"
#include "unit/recording/record_samples.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

bool add(BlockBuilder& builder, const RecordedEvent& event) {
  return std::visit(
      [&builder](const auto& record) {
        if constexpr (std::is_same_v<decltype(record), const RecordedUse&>) {
          return builder.add(std::span(&record, 1)) == 1;
        } else {
          return builder.add(record);
        }
      },
      event);
}

TEST(DiskBlock, GivesBackEveryRecordOfRandomValues) {
  RecordSamples samples(run_seed());
  for (int block = 0; block < 200; ++block) {
    SCOPED_TRACE(fmt::format("VMART_SEED={}, block {}", run_seed(), block));
    BlockBuilder builder;
    std::vector<RecordedEvent> written;
    for (RecordedEvent event = samples.any(); add(builder, event); event = samples.any()) {
      written.push_back(std::move(event));
    }
    ASSERT_EQ(builder.records(), written.size());
    const std::vector<std::uint8_t> payload = builder.take();
    ASSERT_LE(payload.size(), recording_file.payload_bytes_max);
    BlockDecoder decoder(payload, 3);
    RecordedEvent event;
    for (std::size_t record = 0; record < written.size(); ++record) {
      ASSERT_TRUE(decoder.next(event)) << record << ": " << decoder.trouble();
      ASSERT_TRUE(same(event, written[record])) << record << ", type " << event.index();
    }
    EXPECT_FALSE(decoder.next(event));
    EXPECT_EQ(decoder.trouble(), nullptr);
  }
}

TEST(DiskBlock, FillsWithUsesToTheEnd) {
  const std::vector<RecordedUse> uses(100'000, {Time(5), 1, 0, 2 * mib});
  BlockBuilder builder;
  const std::size_t added = builder.add(uses);
  EXPECT_EQ(builder.add(uses), 0u) << "it is full";
  const std::vector<std::uint8_t> payload = builder.take();
  EXPECT_GT(payload.size() + 80, recording_file.payload_bytes_max);
  EXPECT_LE(payload.size(), recording_file.payload_bytes_max);
  BlockDecoder decoder(payload, 1);
  RecordedEvent event;
  std::size_t read = 0;
  for (; decoder.next(event); ++read) ASSERT_EQ(std::get<RecordedUse>(event), uses[0]);
  EXPECT_EQ(read, added);
}

TEST(DiskBlock, HasTheBytesOfTheDocument) {
  BlockBuilder builder;
  builder.add(RecordedAllocation{
      Time(1000), 7, 0x10000000, 4 * mib, 2 * mib, "kv", 0, {{PlaceId{0}, 1}, {PlaceId{2}, 1}}});
  const RecordedUse uses[] = {{Time(1500), 7, 2 * mib, 2 * mib, 1, 1, PlaceId{1}, UseKind::read},
                              {Time(1400), 7, 0, mib, 2, 1, PlaceId{0}, UseKind::write}};
  builder.add(uses);
  builder.add(RecordedGap{3, 1});
  const std::vector<std::uint8_t> expected{
      0x02, 0xD0, 0x0F,              // Allocation, 1000 ns later,
      0x07,                          // number 7,
      0x80, 0x80, 0x80, 0x80, 0x01,  // begin 0x10000000,
      0x80, 0x80, 0x80, 0x02,        // 4 MiB,
      0x80, 0x80, 0x80, 0x01,        // in chunks of 2 MiB,
      0x02, 'k',  'v',               // tag,
      0x00,                          // from slot 0 on,
      0x02, 0x00, 0x01, 0x02, 0x01,  // two runs: one chunk at place 0, one at place 2.
      0x01, 0x01,                    // Use, read, by the GPU of place 1,
      0xE8, 0x07,                    // 500 ns later,
      0x0E,                          // allocation 7 instead of 0,
      0x80, 0x80, 0x80, 0x02,        // 2 MiB after the end of the last use,
      0x80, 0x80, 0x80, 0x02,        // 2 MiB more than the last use.
      0x51, 0x00,                    // Use, write, with passes and weight, by place 0,
      0xC7, 0x01,                    // 100 ns earlier,
      0x00,                          // the same allocation,
      0xFF, 0xFF, 0xFF, 0x03,        // 4 MiB before the end of the last use,
      0xFF, 0xFF, 0x7F,              // 1 MiB less than the last use,
      0x00, 0x00, 0x00, 0x40, 0x01,  // 2 passes, weight 1.
      0x08, 0x00, 0x03, 0x01,        // Gap: three records, one block.
  };
  EXPECT_EQ(builder.take(), expected);
}

TEST(DiskBlock, RefusesWhatMakesNoSense) {
  const std::pair<std::vector<std::uint8_t>, std::string> cases[] = {
      {{0x00}, "a record has an invalid type"},
      {{0x0F}, "a record has an invalid type"},
      {{0x31, 0x00, 0, 0, 0, 0}, "a use has an invalid kind"},
      {{0x01, 0x03, 0, 0, 0, 0}, "a place does not belong to the machine"},
      {{0x01, 0x00, 0x80}, "a record ends too early"},
      {{0x03, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02},
       "a number is too long"},
      {{0x02, 0, 0, 0, 0, 0, 0x05, 'x'}, "a text is too long"},
      {{0x02, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x08}, "an allocation has too many places"},
      {{0x07, 0, 0x7F}, "a decision has an invalid kind"},
  };
  for (const auto& [bytes, reason] : cases) {
    BlockDecoder decoder(bytes, 3);
    RecordedEvent event;
    EXPECT_FALSE(decoder.next(event)) << reason;
    ASSERT_NE(decoder.trouble(), nullptr) << reason;
    EXPECT_EQ(decoder.trouble(), reason);
  }
}

}  // namespace
}  // namespace vma
