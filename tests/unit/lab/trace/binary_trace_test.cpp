// Goal: a binary trace reads back as it was written, with the bytes documented in
// docs/reference/traces.md. Any other contents are refused with file and offset: nothing crashes,
// and a truncated trace is not taken for a whole one.

#include "lab/trace/binary_trace_format.hpp"
#include "lab/trace/trace_block_decoder.hpp"
#include "lab/trace/trace_files.hpp"
#include "recording/block_file.hpp"
#include "support/test_run.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace vma {
namespace {

const TraceHeader header{"name", "origin", "MIT", "by hand"};

class BinaryTrace : public testing::Test {
 protected:
  void expect_refused(const std::vector<std::uint8_t>& bytes, const std::string& why) {
    write_bytes(path_, bytes);
    EXPECT_EQ(error_of([this] { read_all(path_); }),
              fmt::format("read_trace: invalid_argument: {}: {}", path_, why));
  }

  /// Of the first block of the file.
  void expect_payload(const std::vector<std::uint8_t>& payload) {
    const std::vector<std::uint8_t> bytes = read_bytes(path_);
    const auto block =
        std::search(bytes.begin(), bytes.end(), trace_block.begin(), trace_block.end());
    ASSERT_NE(block, bytes.end());
    const std::uint32_t size = get_fixed<std::uint32_t>(&*block + 4);
    EXPECT_EQ(std::vector(block + 16, block + 16 + size), payload);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "test.vtrace";
};

TEST_F(BinaryTrace, HoldsWhatWasWritten) {
  for (const std::size_t count : {0, 1, 1023, 1024, 1025, 20'000}) {
    SCOPED_TRACE(fmt::format("VMART_SEED={}, {} events", run_seed(), count));
    const std::vector<ToldEvent> events = random_events(run_seed() + count, count);
    write_all(path_, header, events);
    const auto source = open_trace(path_);
    EXPECT_EQ(source->header(), header);
    const std::vector<ToldEvent> read = read_all(*source);
    ASSERT_EQ(read.size(), events.size());
    for (std::size_t event = 0; event < count; ++event) ASSERT_EQ(read[event], events[event]);
    EXPECT_TRUE(source->next().empty()) << "the end stays the end";
  }
}

// The example of docs/reference/traces.md.
TEST_F(BinaryTrace, HasThePayloadOfTheDocument) {
  std::vector<ToldEvent> events;
  events.push_back(allocation(1000, 7, 4 << 20, "kv"));
  events.back().event.at = TracePlace(gpu(1));
  events.push_back(access(1500, 7, 2 << 20));
  events.back().event.offset = 2 << 20;
  events.back().event.at = TracePlace(gpu(1));
  events.back().event.task = 3;
  events.push_back(access(1500, 7, 2 << 20));
  events.back().event.at = TracePlace(gpu(1));
  events.back().event.task = 3;
  events.back().event.use = UseKind::write;
  events.back().event.passes = 2;
  events.push_back(free_of(2000, 7));
  events.push_back(ToldEvent{});
  events.back().event.kind = TraceEventKind::mark;
  events.back().event.time = Time(2000);
  events.back().tag = "kv";
  write_all(path_, header, events);
  const std::vector<std::uint8_t> payload{
      0x2A, 0xE8, 0x07, 0x0E, 0x80, 0x80, 0x80, 0x02, 0x03, 0x00, 0x02, 'k',  'v',   //
      0x61, 0xF4, 0x03, 0x0E, 0x80, 0x80, 0x80, 0x01, 0x80, 0x80, 0x80, 0x02, 0x03,  //
      0x06, 0x00,                                                                    //
      0x89, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40,                          //
      0x03, 0xF4, 0x03, 0x0E,                                                        //
      0x05, 0x00, 0x00};
  const std::vector<std::uint8_t> bytes = read_bytes(path_);
  const auto block =
      std::search(bytes.begin(), bytes.end(), trace_block.begin(), trace_block.end());
  ASSERT_NE(block, bytes.end());
  ASSERT_EQ(get_fixed<std::uint32_t>(&*block + 4), payload.size());
  EXPECT_EQ(get_fixed<std::uint32_t>(&*block + 8), 5u);
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), block + 16));
  EXPECT_EQ(read_all(path_), events);
}

// The second example of docs/reference/traces.md.
TEST_F(BinaryTrace, HasThePayloadOfTheDocumentWithTasks) {
  std::vector<ToldEvent> events{
      task_of(1000, 5, 100), access(1000, 7, 64),  free_of(1100, 7),    allocation(1100, 8, 64),
      task_of(1100, 6, 100), after_of(1100, 6, 5), access(1100, 8, 64), task_of(1200, 7, 50, 300),
      after_of(1200, 7, 5),  after_of(1200, 7, 6)};
  for (const std::size_t event : {0, 1}) events[event].event.at = TracePlace(gpu(1));
  events[1].event.task = 5;
  events[2].event.task = 5;
  events[3].event.task = 5;
  events[6].event.task = 6;
  events[7].tag = "kv";
  events[7].event.object = 3;
  write_all(path_, header, events);
  const std::vector<std::uint8_t> payload{0x67, 0xE8, 0x07, 0x0A, 0x03, 0xC8, 0x01,  //
                                          0x01, 0x00, 0x0E, 0x00, 0x80, 0x01,        //
                                          0x43, 0x64, 0x0E, 0x00,                    //
                                          0x42, 0x00, 0x10, 0x40, 0x00,              //
                                          0x27, 0x00, 0x02, 0x00,                    //
                                          0x00, 0x00, 0x00, 0x02,                    //
                                          0x01, 0x00, 0x02, 0x00, 0x00,              //
                                          0xDF, 0x64, 0x02, 0x63, 0xAC, 0x02, 0x06,  //
                                          0x00, 0x02, 'k',  'v',                     //
                                          0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x02};
  expect_payload(payload);
  EXPECT_EQ(read_bytes(path_)[8], 2) << "earlier readers refuse it";
  EXPECT_EQ(read_all(path_), events);
}

// The third example of docs/reference/traces.md.
TEST_F(BinaryTrace, HasThePayloadOfTheDocumentWithHints) {
  Hint twice, next, then;
  twice.device = gpu(1);
  twice.next_use = Time(300);
  twice.passes = 2;
  next.until = Time(500);
  then.next_use = Time(0);
  then.read_mostly = true;
  std::vector<ToldEvent> events{
      allocation(1000, 7, 4 << 20), hint_of_object(1500, 7, 4 << 20, twice), task_of(1500, 5),
      hint_of_object(1500, 7, 64, next), hint_of_object(1600, 7, 64, then)};
  for (const std::size_t event : {3, 4}) events[event].event.task = 5;
  for (const std::size_t event : {3, 4}) events[event].event.at = {};
  events[4].event.at_end = true;
  write_all(path_, header, events);
  const std::vector<std::uint8_t> payload{0x02, 0xE8, 0x07, 0x0E, 0x80, 0x80, 0x80, 0x02,  //
                                          0x08, 0xF4, 0x03, 0x29, 0x0E, 0x00, 0x80, 0x80, 0x80,
                                          0x02, 0x03, 0xAC, 0x02, 0x00, 0x00,                    //
                                          0x00, 0x40,                                            //
                                          0x07, 0x00, 0x0A,                                      //
                                          0x08, 0x00, 0x12, 0x0E, 0x00, 0x40, 0x00, 0xF4, 0x03,  //
                                          0x08, 0x64, 0x4E, 0x0E, 0x00, 0x40, 0x00, 0x00};
  expect_payload(payload);
  EXPECT_EQ(read_bytes(path_)[8], 3) << "earlier readers refuse it";
  EXPECT_EQ(read_all(path_), events);
}

TEST_F(BinaryTrace, WithoutTasksEarlierReadersReadIt) {
  write_all(path_, header, {allocation(1, 1, 1), access(2, 1, 1)});
  EXPECT_EQ(read_bytes(path_)[8], 1);
  write_all(path_, header, {allocation(1, 1, 1), task_of(2, 1)});
  EXPECT_EQ(read_bytes(path_)[8], 2);
  EXPECT_EQ(open_trace(path_)->header(), header);
}

TEST_F(BinaryTrace, AnyTruncationIsRefused) {
  write_all(path_, header, random_events(run_seed(), 50));
  const std::vector<std::uint8_t> whole = read_bytes(path_);
  for (std::size_t size = trace_file.magic.size(); size < whole.size(); ++size) {
    write_bytes(path_, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    ASSERT_NE(error_of([this] { read_all(path_); }), "") << size << " of " << whole.size();
  }
}

TEST_F(BinaryTrace, SaysWhereAndWhatIsWrong) {
  write_all(path_, header, random_events(run_seed(), 50));
  const std::vector<std::uint8_t> whole = read_bytes(path_);
  const std::uint64_t block = trace_file.header_bytes() + write_trace_header(header).size();

  auto bytes = whole;
  bytes[8] = 4;
  expect_refused(bytes, "offset 8: is of version 4, not 1 to 3");
  bytes = whole;
  bytes[trace_file.header_bytes() + 20] ^= 1;
  expect_refused(bytes, "offset 16: the header's checksum is wrong");
  bytes = whole;
  bytes[block] = 'X';
  expect_refused(bytes, fmt::format("offset {}: expected a block", block));
  bytes = whole;
  bytes[block + 7] = 1;
  expect_refused(bytes, fmt::format("offset {}: claims a block of {} bytes", block + 4,
                                    get_fixed<std::uint32_t>(&bytes[block + 4])));
  bytes = whole;
  bytes[block + 20] ^= 1;
  expect_refused(bytes, fmt::format("offset {}: a block's checksum is wrong", block + 12));
  bytes = whole;
  bytes.push_back(0);
  expect_refused(bytes, fmt::format("offset {}: data follows the end", whole.size()));
}

TEST_F(BinaryTrace, AMissingBlockIsNoticed) {
  const std::vector<ToldEvent> events = random_events(run_seed(), 20'000);
  write_all(path_, header, events);
  const std::vector<std::uint8_t> whole = read_bytes(path_);
  const std::size_t block = trace_file.header_bytes() + write_trace_header(header).size();
  const std::size_t next = block + block_head_bytes + get_fixed<std::uint32_t>(&whole[block + 4]);
  std::vector<std::uint8_t> bytes(whole.begin(),
                                  whole.begin() + static_cast<std::ptrdiff_t>(block));
  bytes.insert(bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(next), whole.end());
  write_bytes(path_, bytes);
  EXPECT_NE(error_of([this] { read_all(path_); }).find("the end marker does not match"),
            std::string::npos);
}

TEST_F(BinaryTrace, NoMutationCrashesAndNonePassesForTheWhole) {
  const std::vector<ToldEvent> events = random_events(run_seed(), 300);
  write_all(path_, header, events);
  const std::vector<std::uint8_t> whole = read_bytes(path_);
  std::mt19937_64 random(run_seed());
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("VMART_SEED={}, round {}", run_seed(), round));
    std::vector<std::uint8_t> bytes = whole;
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    }
    if (bytes == whole ||
        !std::equal(trace_file.magic.begin(), trace_file.magic.end(), bytes.begin())) {
      continue;
    }
    write_bytes(path_, bytes);
    const std::string error = error_of([this] { read_all(path_); });
    ASSERT_NE(error.find(path_ + ": "), std::string::npos) << error;
  }
}

// Checksums keep mutations of a file from the decoder, so it gets the bytes directly.
TEST_F(BinaryTrace, TheDecoderTakesAnyBytes) {
  std::mt19937_64 random(run_seed());
  std::vector<TraceEvent> events(64);
  std::uint64_t decoded = 0, given_up = 0;
  for (int round = 0; round < 20'000; ++round) {
    SCOPED_TRACE(fmt::format("VMART_SEED={}, round {}", run_seed(), round));
    const std::size_t size = random() % 200;
    std::vector<std::uint8_t> bytes(size + TraceBlockDecoder::padding_bytes, 0xFF);
    // Mostly small numbers, so that not already the first byte is invalid.
    for (std::size_t at = 0; at < size; ++at) {
      bytes[at] = static_cast<std::uint8_t>(random() % (random() % 8 == 0 ? 256 : 6));
    }
    TraceBlockDecoder decoder({bytes.data(), size});
    TraceTags tags;
    while (!decoder.done()) {
      const std::size_t count = decoder.next(events, tags);
      decoded += count;
      for (std::size_t event = 0; event < count; ++event) {
        ASSERT_EQ(fault_of(events[event]), nullptr);
        ASSERT_LT(static_cast<std::size_t>(events[event].tag), tags.size());
      }
      ASSERT_LE(decoder.offset(), size);
    }
    if (decoder.trouble() != nullptr) ++given_up;
  }
  EXPECT_GT(decoded, 1000u) << "it was given sense as well";
  EXPECT_GT(given_up, 1000u) << "and nonsense";
}

TEST_F(BinaryTrace, EventsOutOfOrderAreNotWritten) {
  const auto sink = create_trace(path_, header);
  const TraceTags tags;
  const TraceEvent events[] = {access(5, 1, 1).event, access(4, 1, 1).event};
  EXPECT_NE(error_of([&] { sink->write(events, tags); }).find("at 4 ns: it is earlier than"),
            std::string::npos);
}

TEST_F(BinaryTrace, AFolderThatIsNotThereIsNamed) {
  const std::string path = folder_ / "none/test.vtrace";
  EXPECT_NE(error_of([&] { create_trace(path, header); }).find(path), std::string::npos);
  EXPECT_NE(error_of([&] { open_trace(path); }).find(path), std::string::npos);
}

}  // namespace
}  // namespace vma
