// Goal: requests to language models become the accesses that the converters' headers promise.
// Method: hand-computed expectations.

#include "unit/lab/import/convert_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <utility>

namespace vma {
namespace {

using Lines = std::vector<std::string>;
using RequestConverters = Converting;
constexpr std::int64_t second = 1'000'000'000;

ToldEvent of_task(ToldEvent told, std::uint32_t task, UseKind use, std::int64_t duration_ns = 0,
                  float passes = 1, std::uint64_t offset = 0) {
  told.event.task = task;
  told.event.use = use;
  told.event.duration = Time(duration_ns);
  told.event.passes = passes;
  told.event.offset = offset;
  return told;
}

constexpr std::string_view azure_requests =
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 23:59:59.9999000,100,4\r\n"
    "2023-11-17 00:00:00.0009,5,0\r\n"
    "2023-11-17 00:00:01,0,1";

// Tokens of 10 bytes, 1 ms each: a prompt of 100 and 4 output tokens read 4*100 + 0+1+2+3 tokens,
// which is 406/104 passes over all 104.
TEST_F(RequestConverters, Azure) {
  const auto events =
      convert("azure", "a.csv", azure_requests, {"token_bytes=10", "token_us=1000", "closed=0"});
  const std::int64_t next = 1'000'000, third = second + 100'000;
  const std::int64_t end = 4'000'000;
  EXPECT_EQ(events, (std::vector{
                        allocation(0, 1, 1040, "kv"),
                        of_task(access(0, 1, 1000), 1, UseKind::write),
                        of_task(access(0, 1, 1040), 1, UseKind::read, end, 406.0F / 104),
                        of_task(access(0, 1, 40), 1, UseKind::write, end, 1, 1000),
                        allocation(next, 2, 50, "kv"),
                        of_task(access(next, 2, 50), 2, UseKind::write),
                        free_of(next, 2),
                        free_of(end, 1),
                        allocation(third, 3, 10, "kv"),
                        of_task(access(third, 3, 10), 3, UseKind::write, 1'000'000),
                        free_of(third + 1'000'000, 3),
                    }));
  EXPECT_EQ(bad(), Lines{});
}

TEST_F(RequestConverters, TakeTheFirstRequests) {
  const auto all = convert("azure", "a.csv", azure_requests, {"requests=3"});
  EXPECT_EQ(convert("azure", "a.csv", azure_requests, {"requests=9"}), all);
  const auto two = convert("azure", "a.csv", azure_requests, {"requests=2"});
  EXPECT_LT(two.size(), all.size());
  const std::size_t third = azure_requests.rfind('\n');
  EXPECT_EQ(two, convert("azure", "a.csv", azure_requests.substr(0, third)));
}

TEST_F(RequestConverters, DoNotCountBadLinesAsRequests) {
  constexpr std::string_view requests =
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "yesterday,1,1\n"
      "2023-11-17 00:00:00,5,0\n"
      "2023-11-17 00:00:01,5,0\n";
  const auto one = convert("azure", "a.csv", requests, {"requests=1", "closed=0"});
  EXPECT_EQ(bad().size(), 1u);
  EXPECT_EQ(one,
            (std::vector{allocation(0, 2, 5 * 131'072, "kv"),
                         of_task(access(0, 2, 5 * 131'072), 2, UseKind::write), free_of(0, 2)}));
}

ToldEvent of_request(ToldEvent told, std::uint64_t request) {
  told.event.object = request;
  return told;
}

/// What happens at the end of a task.
ToldEvent waits_for(ToldEvent told, std::uint32_t task) {
  told.event.task = task;
  return told;
}

// The same requests: each of the four tokens reads a quarter of the 406, and writes one of the
// four. The second and the third request have one task each.
TEST_F(RequestConverters, AzureAsAClosedLoop) {
  const auto events = convert("azure", "a.csv", azure_requests,
                              {"token_bytes=10", "token_us=1000", "prefill_tokens_s=1e6"});
  const std::int64_t next = 1'000'000, third = second + 100'000;
  const std::int64_t token = 100'000, end = token + 4'000'000;
  EXPECT_EQ(events, (std::vector{
                        allocation(0, 1, 1040, "kv"),
                        of_request(task_of(0, 1, 100'000), 1),
                        of_task(access(0, 1, 1000), 1, UseKind::write),
                        of_request(task_of(token, 2, 1'000'000, 4), 1),
                        after_of(token, 2, 1),
                        of_task(access(token, 1, 1040), 2, UseKind::read, 0, 101.5F / 104),
                        of_task(access(token, 1, 40), 2, UseKind::write, 0, 0.25, 1000),
                        allocation(next, 2, 50, "kv"),
                        of_request(task_of(next, 3, 5000), 2),
                        of_task(access(next, 2, 50), 3, UseKind::write),
                        waits_for(free_of(next + 5000, 2), 3),
                        waits_for(free_of(end, 1), 2),
                        allocation(third, 3, 10, "kv"),
                        of_request(task_of(third, 4, 1'000'000), 3),
                        of_task(access(third, 3, 10), 4, UseKind::write),
                        waits_for(free_of(third + 1'000'000, 3), 4),
                    }));
}

// The first of the requests above with two tokens to a part: two parts of 20 bytes, each with a
// task of two steps, which read half a token of their own part on average.
TEST_F(RequestConverters, CachesCanGrow) {
  const auto events = convert("azure", "a.csv",
                              "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                              "2023-11-16 23:59:59,100,3\n",
                              {"token_bytes=10", "token_us=1000", "grow_tokens=2"});
  const std::uint64_t part = std::uint64_t{1} << 33;
  const std::int64_t token = 1'000'000;
  EXPECT_EQ(events, (std::vector{
                        allocation(0, 1, 1000, "kv"),
                        of_request(task_of(0, 1), 1),
                        of_task(access(0, 1, 1000), 1, UseKind::write),
                        waits_for(allocation(0, part, 20, "kv"), 1),
                        of_request(task_of(0, 2, token, 2), 1),
                        after_of(0, 2, 1),
                        of_task(access(0, 1, 1000), 2, UseKind::read),
                        of_task(access(0, part, 20), 2, UseKind::read, 0, 0.25),
                        of_task(access(0, part, 20), 2, UseKind::write, 0, 0.5),
                        waits_for(allocation(2 * token, part + 1, 10, "kv"), 2),
                        of_request(task_of(2 * token, 3, token), 1),
                        after_of(2 * token, 3, 2),
                        of_task(access(2 * token, 1, 1000), 3, UseKind::read),
                        of_task(access(2 * token, part, 20), 3, UseKind::read),
                        of_task(access(2 * token, part + 1, 10), 3, UseKind::write),
                        waits_for(free_of(3 * token, 1), 3),
                        waits_for(free_of(3 * token, part), 3),
                        waits_for(free_of(3 * token, part + 1), 3),
                    }));
}

// Three requests of 4 tokens, a millisecond each, on two GPUs: the third one comes while each has
// one, and shares the steps of the first GPU. Each prompt reads the weights once.
TEST_F(RequestConverters, EachRequestReadsTheWeightsOfItsGpu) {
  const std::string requests =
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 00:00:00,100,4\n2023-11-16 00:00:00,100,4\n2023-11-16 00:00:00.001,100,4\n";
  for (const std::string loop : {"closed=0", "closed=1"}) {
    for (const std::string grow : {"grow_tokens=0", "grow_tokens=3"}) {
      const auto events =
          convert("azure", "a.csv", requests,
                  {"token_bytes=1", "token_us=1000", "weight_bytes=1000", "gpus=2", loop, grow});
      std::vector<double> passes(2);
      std::uint64_t steps = 1;
      for (const ToldEvent& told : events) {
        if (told.event.kind == TraceEventKind::task) {
          EXPECT_TRUE(told.event.at.is_set());
          steps = told.event.bytes;
        }
        const std::uint64_t gpu = told.event.object - (std::uint64_t{1} << 62);
        if (told.event.kind != TraceEventKind::access || gpu > 1) continue;
        EXPECT_EQ(told.event.bytes, 1000u);
        EXPECT_EQ(told.event.at.place().ordinal, static_cast<int>(gpu));
        passes[gpu] += static_cast<double>(told.event.passes) * static_cast<double>(steps);
      }
      EXPECT_EQ(passes, (std::vector<double>{1 + 4 + 1 + 4 / 2.0, 1 + 4})) << loop << grow;
    }
  }
}

TEST_F(RequestConverters, MooncakeCanReadWeights) {
  for (const std::string loop : {"closed=0", "closed=1"}) {
    TraceAudit audit;
    for (const ToldEvent& told :
         convert("mooncake", "a.jsonl",
                 R"({"timestamp":0,"input_length":512,"output_length":10,"hash_ids":[4]})",
                 {"token_bytes=1", "weight_bytes=1000", "gpus=2", loop}))
      EXPECT_EQ(audit.add(told.event), std::nullopt);
    EXPECT_EQ(audit.bytes_read(), 512 * 10 + 1000 * 11);
    EXPECT_EQ(audit.devices(), std::set<int>{0});
  }
}

// An open loop and a closed loop differ in when, not in how much.
TEST_F(RequestConverters, BothLoopsAccessTheSameBytes) {
  const auto bytes = [this](const std::string& closed) {
    TraceAudit audit;
    for (const ToldEvent& told :
         convert("vidur", "a.csv",
                 "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
                 "10,2,12,5.0\n1,700,701,1.0\n20,1,21,20.0\n0,9,9,0\n",
                 {closed}))
      audit.add(told.event);
    EXPECT_EQ(audit.fault_count(), 0u);
    return std::pair(audit.bytes_read(), audit.bytes_written());
  };
  const auto open = bytes("closed=0"), closed = bytes("closed=1");
  EXPECT_NEAR(closed.first, open.first, 1e-6 * open.first);
  EXPECT_NEAR(closed.second, open.second, 1e-6 * open.second);
}

TEST_F(RequestConverters, AzureTakesTimeForPromptsIfTold) {
  const auto events = convert(
      "azure", "a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 00:00:00,100,1\n",
      {"token_bytes=1", "token_us=7", "prefill_tokens_s=50", "closed=0"});
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].event.duration, Time(2 * second));
  EXPECT_EQ(events[2].event.time, Time(2 * second));
  EXPECT_EQ(events[4].event.time, Time(2 * second + 7000));
}

TEST_F(RequestConverters, AzureNamesBadLines) {
  convert("azure", "a.csv",
          "TIMESTAMP,ContextTokens,GeneratedTokens\n"
          "2023-11-16 18:00:00.5,1,1\n"
          "2023-11-16 18:00:00.4,1,1\n"
          "2023-02-30 18:00:00,1,1\n"
          "2023-11-16T18:00:00,1,1\n"
          "2023-11-16 18:00:01,x,1\n"
          "2023-11-16 18:00:01,1\n"
          "2023-11-16 18:00:01,0,0\n"
          "\n"
          "2023-11-16 18:00:01,1,1\n");
  EXPECT_EQ(bad(), (Lines{"3: is earlier than the request above it", "4: TIMESTAMP: is not a date",
                          "5: TIMESTAMP: is not a time",
                          "6: ContextTokens: \"x\" is not a whole number from 0 to 100000000",
                          "7: has 2 fields, not 3", "8: has no tokens"}));
}

TEST_F(RequestConverters, AnotherHeaderIsRefused) {
  EXPECT_NE(
      error_of([this] { convert("azure", "a.csv", "a,b,c\n"); }).find("a.csv: line 1: is not"),
      std::string::npos);
}

TEST_F(RequestConverters, Vidur) {
  const std::string text =
      "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
      "10,2,12,5.0\n1,1,3,1.0\n20,1,21,20.0\n";
  const auto events =
      convert("vidur", "a.csv", text, {"token_bytes=1", "requests_s=2", "closed=0"});
  EXPECT_EQ(bad(), (Lines{"3: num_total_tokens: \"3\" is not a whole number from 2 to 2"}));
  ASSERT_EQ(events.size(), 10u);
  EXPECT_EQ(events[0], allocation(0, 1, 12, "kv"));
  EXPECT_GT(events[5].event.time, Time(0));
  EXPECT_EQ(events[5].event.object, 3u);
  EXPECT_EQ(convert("vidur", "a.csv", text, {"token_bytes=1", "requests_s=2", "closed=0"}), events);
  seed_ = 2;
  EXPECT_NE(convert("vidur", "a.csv", text, {"token_bytes=1", "requests_s=2", "closed=0"}), events);
}

// The second request was scheduled first.
TEST_F(RequestConverters, LlmServingSim) {
  const auto events = convert(
      "llmservingsim", "a.jsonl",
      R"({"request_id":"a","input_toks":3,"output_toks":1,"queued_ts":100.0,"scheduled_ts":102.0,"first_token_ts":103.0,"last_token_ts":103.5})"
      "\n"
      R"({"request_id":"b","input_toks":2,"output_toks":2,"queued_ts":100.5,"scheduled_ts":101.0,"first_token_ts":101.25,"last_token_ts":102.5})"
      "\n"
      R"({"request_id":"c","input_toks":2,"output_toks":2,"queued_ts":101,"scheduled_ts":100.0,"first_token_ts":101.25,"last_token_ts":102.5})"
      "\n",
      {"token_bytes=8", "closed=0"});
  EXPECT_EQ(events,
            (std::vector{
                allocation(second, 2, 32, "kv"),
                of_task(access(second, 2, 16), 2, UseKind::write, second / 4),
                of_task(access(second * 5 / 4, 2, 32), 2, UseKind::read, second * 5 / 4, 1.25),
                of_task(access(second * 5 / 4, 2, 16), 2, UseKind::write, second * 5 / 4, 1, 16),
                allocation(2 * second, 1, 32, "kv"),
                of_task(access(2 * second, 1, 24), 1, UseKind::write, second),
                free_of(second * 5 / 2, 2),
                of_task(access(3 * second, 1, 32), 1, UseKind::read, second / 2, 0.75),
                of_task(access(3 * second, 1, 8), 1, UseKind::write, second / 2, 1, 24),
                free_of(second * 7 / 2, 1),
            }));
  EXPECT_EQ(bad(), (Lines{"3: the line: scheduled_ts: 100 is not between 101 and 1000000000"}));
}

constexpr std::string_view mooncake_requests =
    R"({"timestamp":0,"input_length":600,"output_length":10,"hash_ids":[4,5]})"
    "\n"
    R"({"timestamp":500,"input_length":512,"output_length":0,"hash_ids":[4]})"
    "\n"
    R"({"timestamp":4000,"input_length":1,"output_length":0,"hash_ids":[4]})"
    "\n";

// Blocks are 512 tokens of 2 bytes; the second request shares one of them, and the third comes when
// that block is gone.
TEST_F(RequestConverters, Mooncake) {
  const auto events = convert("mooncake", "a.jsonl", mooncake_requests,
                              {"token_bytes=2", "token_us=100000", "keep_s=2", "closed=0"});
  EXPECT_EQ(events, (std::vector{
                        allocation(0, 4, 1024, "kv"),
                        of_task(access(0, 4, 1024), 1, UseKind::write),
                        of_task(access(0, 4, 1024), 1, UseKind::read, second, 10),
                        allocation(0, 5, 1024, "kv"),
                        of_task(access(0, 5, 176), 1, UseKind::write),
                        of_task(access(0, 5, 176), 1, UseKind::read, second, 10),
                        of_task(access(second / 2, 4, 1024), 2, UseKind::read),
                        free_of(3 * second, 4),
                        free_of(3 * second, 5),
                        allocation(4 * second, 4, 1024, "kv"),
                        of_task(access(4 * second, 4, 2), 3, UseKind::write),
                        free_of(6 * second, 4),
                    }));
  EXPECT_EQ(bad(), Lines{});
}

// As above, but with 1000 tokens a second, of which the second request processes none: it waits for
// the one that writes its block. The last request gets another object for it.
TEST_F(RequestConverters, MooncakeAsAClosedLoop) {
  const auto events =
      convert("mooncake", "a.jsonl", mooncake_requests,
              {"token_bytes=2", "token_us=100000", "keep_s=2", "prefill_tokens_s=1000"});
  const std::int64_t token = second * 3 / 5, end = token + second, last = 4 * second + 1'000'000;
  EXPECT_EQ(events, (std::vector{
                        allocation(0, 0, 1024, "kv"),
                        allocation(0, 1, 1024, "kv"),
                        of_request(task_of(0, 1, token), 1),
                        of_task(access(0, 0, 1024), 1, UseKind::write),
                        of_task(access(0, 1, 176), 1, UseKind::write),
                        of_request(task_of(token, 2, second / 10, 10), 1),
                        after_of(token, 2, 1),
                        of_task(access(token, 0, 1024), 2, UseKind::read),
                        of_task(access(token, 1, 176), 2, UseKind::read),
                        of_request(task_of(token, 3), 2),
                        after_of(token, 3, 1),
                        of_task(access(token, 0, 1024), 3, UseKind::read),
                        waits_for(free_of(end + 2 * second, 0), 2),
                        waits_for(free_of(end + 2 * second, 1), 2),
                        allocation(4 * second, 2, 1024, "kv"),
                        of_request(task_of(4 * second, 4, 1'000'000), 3),
                        of_task(access(4 * second, 2, 2), 4, UseKind::write),
                        waits_for(free_of(last + 2 * second, 2), 4),
                    }));
}

/// "time: task, bytes of object, passes in ms until ms", and whether at the end of the task.
std::vector<std::string> hints_in(const std::vector<ToldEvent>& events) {
  std::vector<std::string> hints;
  for (const ToldEvent& told : events) {
    const TraceEvent& event = told.event;
    if (event.kind != TraceEventKind::hint) continue;
    hints.push_back(fmt::format(
        "{} ms: task {}{}, {} bytes of {}, {} in {} ms until {} ms", event.time.count() / 1'000'000,
        event.task, event.at_end ? " ended" : "", event.bytes, event.object, event.passes,
        event.duration.count() / 1'000'000, event.chunk_bytes / 1'000'000));
  }
  return hints;
}

// The outputs of 10 and 20 tokens have ended when the third request comes, which expects 15; that
// its own has 100 nobody knows.
TEST_F(RequestConverters, OutputsAnnounceWhatAServerExpects) {
  const auto events = convert("azure", "a.csv",
                              "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                              "2023-11-16 18:00:00,5,10\n2023-11-16 18:00:00,5,20\n"
                              "2023-11-16 18:00:09,5,100\n",
                              {"token_bytes=2", "token_us=100000", "hints=1"});
  EXPECT_EQ(
      hints_in(events),
      (std::vector<std::string>{"9000 ms: task 6, 210 bytes of 3, 15 in 0 ms until 1500 ms"}));
}

// Block 1 was idle for 2 s before the second request, whose blocks may be idle as long when it
// ends. The block that the third one still uses is not.
TEST_F(RequestConverters, MooncakeAnnouncesThatBlocksAreIdle) {
  const auto events =
      convert("mooncake", "a.jsonl",
              "{\"timestamp\":0,\"input_length\":512,\"output_length\":10,\"hash_ids\":[1]}\n"
              "{\"timestamp\":3000,\"input_length\":1024,\"output_length\":10,\"hash_ids\":[1,2]}\n"
              "{\"timestamp\":3500,\"input_length\":512,\"output_length\":20,\"hash_ids\":[1]}\n",
              {"token_bytes=2", "token_us=100000", "keep_s=60", "hints=1"});
  EXPECT_EQ(hints_in(events),
            (std::vector<std::string>{"3000 ms: task 4, 1024 bytes of 0, 10 in 0 ms until 1000 ms",
                                      "3000 ms: task 4, 1024 bytes of 1, 10 in 0 ms until 1000 ms",
                                      "3500 ms: task 6, 1024 bytes of 0, 10 in 0 ms until 1000 ms",
                                      "4000 ms: task 4 ended, 1024 bytes of 1, 0 in 2000 ms until "
                                      "2000 ms",
                                      "5500 ms: task 6 ended, 1024 bytes of 0, 0 in 2000 ms until "
                                      "2000 ms"}));
}

TEST_F(RequestConverters, MooncakeKeepsABlockWhileItIsUsedAgain) {
  std::string text;
  for (int time = 0; time <= 9000; time += 1500) {
    text += "{\"timestamp\":" + std::to_string(time) +
            ",\"input_length\":512,\"output_length\":0,\"hash_ids\":[7]}\n";
  }
  const auto events = convert("mooncake", "a.jsonl", text, {"keep_s=2", "closed=0"});
  ASSERT_EQ(events.size(), 9u) << "one allocation, seven accesses, one free";
  EXPECT_EQ(events.back(), free_of(11 * second, 7));
}

TEST_F(RequestConverters, MooncakeNamesBadLines) {
  convert("mooncake", "a.jsonl",
          "{\"timestamp\":5,\"input_length\":1,\"output_length\":0,\"hash_ids\":[1]}\n"
          "{\"timestamp\":4,\"input_length\":1,\"output_length\":0,\"hash_ids\":[1]}\n"
          "{\"timestamp\":6,\"input_length\":513,\"output_length\":0,\"hash_ids\":[1]}\n"
          "{\"timestamp\":6,\"input_length\":1,\"output_length\":0,\"hash_ids\":[-1]}\n"
          "{\"timestamp\":6,\"input_length\":1,\"output_length\":0}\n"
          "{\"timestamp\":6\n");
  ASSERT_EQ(bad().size(), 5u);
  EXPECT_EQ(bad()[0], "2: is earlier than the request above it");
  EXPECT_EQ(bad()[1], "3: hash_ids: are 1, and 513 tokens have 2");
  EXPECT_EQ(bad()[2], "4: hash_ids: contains something other than a whole number");
  EXPECT_EQ(bad()[3], "5: the line: hash_ids: is missing");
  EXPECT_TRUE(bad()[4].starts_with("6: ")) << bad()[4];
}

TEST_F(RequestConverters, TooManyBadLinesLeaveNothing) {
  bad_lines_max_ = 1;
  const std::string error = error_of([this] { convert("mooncake", "a.jsonl", "x\ny\n"); });
  EXPECT_NE(error.find("a.jsonl: line 2: "), std::string::npos) << error;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.vtrace"));
}

TEST_F(RequestConverters, NothingIsNoTrace) {
  EXPECT_NE(
      error_of([this] { convert("mooncake", "a.jsonl", "\n"); }).find("contains nothing that"),
      std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out.vtrace"));
}

TEST_F(RequestConverters, FormatsAndParametersAreNamedWhenTheyAreNone) {
  const auto error = [this](const std::string& format, const std::string& value) {
    return error_of([&] { convert(format, "a.jsonl", "", {value}); });
  };
  EXPECT_NE(error("cake", "a=1").find("known are trace, azure, dlrm"), std::string::npos);
  EXPECT_NE(error("mooncake", "keep=1").find("\"keep\" is not a parameter"), std::string::npos);
  EXPECT_NE(error("mooncake", "keep=1").find("keep_s: 300"), std::string::npos);
  EXPECT_NE(error("mooncake", "keep_s").find("is not a whole number from 0 to 1000000"),
            std::string::npos);
  EXPECT_NE(error("mooncake", "keep_s=1.5").find("is not a whole number"), std::string::npos);
  EXPECT_NE(error("mooncake", "keep_s=nan").find("is not a whole number"), std::string::npos);
  EXPECT_NE(error("mooncake", "keep_s=-1").find("is not a whole number"), std::string::npos);
}

}  // namespace
}  // namespace vma
