// Goal: a trace of JSON lines reads back as it was written; invalid lines are counted and named,
// and too many of them are an error.

#include "lab/trace/trace_files.hpp"
#include "support/test_run.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

const TraceHeader json_header{"name", "origin \"x\"", "MIT", "by hand"};
constexpr const char* good = "{\"event\":\"access\",\"time_ns\":1,\"object\":2,\"bytes\":3}\n";

class JsonTrace : public testing::Test {
 protected:
  /// The reason given for the only line.
  std::string reason_of(const std::string& line) {
    write_text(path_, line + "\n");
    const auto source = open_trace(path_);
    EXPECT_TRUE(read_all(*source).empty()) << line;
    const BadLines* const bad = source->bad_lines();
    if (bad->count() != 1) return fmt::format("{} bad lines", bad->count());
    EXPECT_EQ(bad->kept()[0].line, 1u);
    return bad->kept()[0].reason;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "test.jsonl";
};

TEST_F(JsonTrace, HoldsWhatWasWritten) {
  const std::vector<ToldEvent> events = random_events(run_seed(), 5000);
  write_all(path_, json_header, events);
  const auto source = open_trace(path_);
  EXPECT_EQ(source->header(), json_header);
  const std::vector<ToldEvent> read = read_all(*source);
  EXPECT_EQ(source->bad_lines()->count(), 0u);
  ASSERT_EQ(read.size(), events.size());
  for (std::size_t event = 0; event < read.size(); ++event) {
    ASSERT_EQ(read[event], events[event]) << "VMART_SEED=" << run_seed();
  }
}

TEST_F(JsonTrace, IsWrittenAsTheDocumentSays) {
  std::vector<ToldEvent> events{allocation(5, 1, 64, "k\"v"), access(6, 1, 32), free_of(7, 1)};
  events[0].event.at = TracePlace(host(0));
  events[0].event.chunk_bytes = 16;
  events[1].event.offset = 8;
  events[1].event.use = UseKind::read_write;
  events[1].event.passes = 2.5;
  events[1].event.duration = Time(9);
  events[1].event.task = 4;
  events[1].event.at = TracePlace(gpu(3));
  write_all(path_, {}, events);
  EXPECT_EQ(text_of(path_),
            "{\"vmart_trace\":1}\n"
            "{\"event\":\"alloc\",\"time_ns\":5,\"object\":1,\"bytes\":64,\"chunk_bytes\":16,"
            "\"home\":\"host(0)\",\"tag\":\"k\\\"v\"}\n"
            "{\"event\":\"access\",\"time_ns\":6,\"object\":1,\"bytes\":32,\"offset\":8,"
            "\"use\":\"read_write\",\"passes\":2.5E0,\"duration_ns\":9,\"task\":4,\"device\":3}\n"
            "{\"event\":\"free\",\"time_ns\":7,\"object\":1}\n");
}

TEST_F(JsonTrace, HasTasksAsTheDocumentSays) {
  std::vector<ToldEvent> events{allocation(5, 1, 64),     task_of(5, 1, 100),  access(5, 1, 64),
                                task_of(105, 2, 50, 300), after_of(105, 2, 1), task_of(105, 3),
                                after_of(105, 3, 2),      after_of(105, 3, 1), free_of(105, 1)};
  events[2].event.task = 1;
  events[3].event.at = TracePlace(gpu(2));
  events[3].tag = "kv";
  events[3].event.object = 12;
  events[8].event.task = 3;
  write_all(path_, {}, events);
  EXPECT_EQ(text_of(path_),
            "{\"vmart_trace\":2}\n"
            "{\"event\":\"alloc\",\"time_ns\":5,\"object\":1,\"bytes\":64}\n"
            "{\"event\":\"task\",\"time_ns\":5,\"task\":1,\"compute_ns\":100}\n"
            "{\"event\":\"access\",\"time_ns\":5,\"object\":1,\"bytes\":64,\"use\":\"read\","
            "\"task\":1}\n"
            "{\"event\":\"task\",\"time_ns\":105,\"task\":2,\"compute_ns\":50,\"repeat\":300,"
            "\"request\":12,\"device\":2,\"tag\":\"kv\",\"after\":[1]}\n"
            "{\"event\":\"task\",\"time_ns\":105,\"task\":3,\"after\":[2,1]}\n"
            "{\"event\":\"free\",\"time_ns\":105,\"object\":1,\"after_task\":3}\n");
  EXPECT_EQ(read_all(path_), events);
}

TEST_F(JsonTrace, HasHintsAsTheDocumentSays) {
  Hint soon;
  soon.next_use = Time(30);
  soon.passes = 2.5;
  Hint idle;
  idle.passes = 0;
  idle.read_mostly = true;
  idle.until = Time(500);
  std::vector<ToldEvent> events{allocation(5, 1, 64), hint_of_object(6, 1, 32, soon), task_of(7, 1),
                                hint_of_object(7, 1, 64, soon), hint_of_object(7, 1, 64, idle)};
  events[1].event.offset = 8;
  for (const std::size_t event : {3, 4}) events[event].event.task = 1;
  for (const std::size_t event : {3, 4}) events[event].event.at = {};
  events[4].event.at_end = true;
  write_all(path_, {}, events);
  EXPECT_EQ(text_of(path_),
            "{\"vmart_trace\":3}\n"
            "{\"event\":\"alloc\",\"time_ns\":5,\"object\":1,\"bytes\":64}\n"
            "{\"event\":\"hint\",\"time_ns\":6,\"object\":1,\"bytes\":32,\"offset\":8,"
            "\"passes\":2.5E0,\"next_use_ns\":30,\"device\":0}\n"
            "{\"event\":\"task\",\"time_ns\":7,\"task\":1}\n"
            "{\"event\":\"hint\",\"time_ns\":7,\"object\":1,\"bytes\":64,\"passes\":2.5E0,"
            "\"next_use_ns\":30,\"task\":1}\n"
            "{\"event\":\"hint\",\"time_ns\":7,\"object\":1,\"bytes\":64,\"use\":\"read\","
            "\"passes\":0,\"until_ns\":500,\"after_task\":1}\n");
  EXPECT_EQ(read_all(path_), events);
}

TEST_F(JsonTrace, SaysWhatIsWrongWithAHint) {
  const std::string hint = "{\"event\":\"hint\",\"time_ns\":1,\"object\":1";
  EXPECT_EQ(reason_of(hint + ",\"device\":0}"), "bytes: is missing");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":0,\"device\":0}"), "it announces no bytes");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":1}"), "it names neither a device nor a task");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":1,\"after_task\":0}"),
            "it names neither a device nor a task");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":1,\"task\":1,\"after_task\":1}"),
            "after_task: does not belong to this event");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":1,\"device\":0,\"passes\":-1}"),
            "its passes are not a number of at least 0");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":1,\"device\":0,\"use\":\"write\"}"),
            "its use is neither read nor read_write");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":1,\"device\":0,\"until_ns\":9223372036854775808}"),
            "it ends after the end of time");
  EXPECT_EQ(reason_of(hint + ",\"bytes\":1,\"device\":0,\"next_use_ns\":-1}"),
            "next_use_ns: is not a whole number of at least 0");
  EXPECT_EQ(reason_of("{\"event\":\"free\",\"time_ns\":1,\"object\":1,\"until_ns\":1}"),
            "until_ns: does not belong to this event");
}

// The list of one line may not fit into a batch.
TEST_F(JsonTrace, ReadsManyPredecessors) {
  std::vector<ToldEvent> events;
  for (std::uint32_t task = 1; task <= 3000; ++task) events.push_back(task_of(1, task));
  events.push_back(task_of(2, 9999));
  for (std::uint32_t task = 1; task <= 3000; ++task) events.push_back(after_of(2, 9999, task));
  events.push_back(task_of(2, 10'000));
  write_all(path_, {}, events);
  EXPECT_EQ(read_all(path_), events);
}

TEST_F(JsonTrace, APredecessorWithoutItsTaskIsNotWritten) {
  const auto sink = create_trace(path_, {});
  const TraceTags tags;
  const TraceEvent events[] = {task_of(4, 1).event, task_of(4, 2).event, after_of(4, 1, 2).event};
  EXPECT_NE(error_of([&] { sink->write(events, tags); }).find("does not follow the task"),
            std::string::npos);
}

TEST_F(JsonTrace, SaysWhatIsWrongWithATask) {
  const std::string task = "{\"event\":\"task\",\"time_ns\":1,\"task\":2";
  EXPECT_EQ(reason_of("{\"event\":\"task\",\"time_ns\":1}"), "task: is missing");
  EXPECT_EQ(reason_of("{\"event\":\"after\",\"time_ns\":1}"),
            "event: is not one of access, alloc, free, tag, mark, place, task and hint");
  EXPECT_EQ(reason_of(task + ",\"after\":1}"), "after: is not a list");
  EXPECT_EQ(reason_of(task + ",\"after\":\"1\"}"), "after: is not a list");
  EXPECT_EQ(reason_of(task + ",\"after\":[\"1\"]}"), "after: is not a number");
  EXPECT_EQ(reason_of(task + ",\"after\":[[1]]}"), "after: is a list");
  EXPECT_EQ(reason_of(task + ",\"after\":[{}]}"), "after: is an object");
  EXPECT_EQ(reason_of(task + ",\"after\":[0]}"), "after: its predecessor has no number");
  EXPECT_EQ(reason_of(task + ",\"after\":[2]}"), "after: it is its own predecessor");
  EXPECT_EQ(reason_of(task + ",\"repeat\":[1]}"), "repeat: is a list");
  EXPECT_EQ(reason_of(task + ",\"repeat\":0}"), "it is done no times");
  EXPECT_EQ(reason_of(task + ",\"bytes\":1}"), "bytes: does not belong to this event");
  EXPECT_EQ(reason_of(task + ",\"after_task\":1}"), "after_task: does not belong to this event");
  EXPECT_EQ(reason_of(task + ",\"compute_ns\":4611686018427387904,\"repeat\":2}"),
            "it ends after the end of time");
  EXPECT_EQ(reason_of("{\"event\":\"task\",\"time_ns\":1,\"task\":0}"), "its task has no number");
}

TEST_F(JsonTrace, NeedsNoHeader) {
  write_text(path_, std::string(good) + good);
  EXPECT_EQ(read_all(path_).size(), 2u);
}

TEST_F(JsonTrace, ReadsMembersInAnyOrderAndWithSpaces) {
  write_text(path_,
             " { \"bytes\" : 3, \"object\":2 ,\"time_ns\":1, \"ev\\u0065nt\":\"acc\\u0065ss\" }");
  ASSERT_EQ(read_all(path_).size(), 1u);
  EXPECT_EQ(read_all(path_)[0], access(1, 2, 3));
}

TEST_F(JsonTrace, BadLinesAreNamedAndTheOthersRead) {
  write_text(path_, std::string("{\"vmart_trace\":1}\n") + good + "garbage\n\n" + good +
                        "{\"event\":\"access\",\"time_ns\":0,\"object\":2,\"bytes\":3}\n" + good);
  const auto source = open_trace(path_);
  EXPECT_EQ(read_all(*source).size(), 3u);
  const BadLines& bad = *source->bad_lines();
  ASSERT_EQ(bad.count(), 2u);
  EXPECT_EQ(bad.kept()[0].line, 3u);
  EXPECT_EQ(bad.kept()[1].line, 6u);
  EXPECT_EQ(bad.kept()[1].reason, "time_ns: 0 is before 1, the time of the previous event");
}

TEST_F(JsonTrace, OneBadLineTooManyIsFatal) {
  write_text(path_, std::string(good) + "x\n" + good + "y\n" + "z\n");
  EXPECT_EQ(read_all(*open_trace(path_, 3)).size(), 2u);
  const std::string error = error_of([this] { read_all(*open_trace(path_, 2)); });
  EXPECT_NE(error.find(path_ + ": line 5: "), std::string::npos) << error;
  EXPECT_NE(error.find("3 bad lines, at most 2; the first is line 2"), std::string::npos) << error;
}

TEST_F(JsonTrace, SaysWhatIsWrongWithALine) {
  const std::string access = "{\"event\":\"access\",\"time_ns\":1,\"object\":2,\"bytes\":3";
  EXPECT_EQ(reason_of("[]"), "is not an object");
  EXPECT_EQ(reason_of("7"), "is not an object");
  EXPECT_EQ(reason_of("{}"), "event: is missing");
  EXPECT_EQ(reason_of("{\"event\":\"acess\"}"),
            "event: is not one of access, alloc, free, tag, mark, place, task and hint");
  EXPECT_EQ(reason_of("{\"event\":\"access\",\"time_ns\":1,\"object\":2}"), "bytes: is missing");
  EXPECT_EQ(reason_of(access + ",\"bites\":1}"), "\"bites\": is not a key of any event");
  EXPECT_EQ(reason_of(access + ",\"bytes\":1}"), "bytes: appears twice");
  EXPECT_EQ(reason_of(access + ",\"home\":\"gpu(0)\"}"), "home: does not belong to this event");
  EXPECT_EQ(reason_of(access + ",\"task\":-1}"), "task: is not a whole number of at least 0");
  EXPECT_EQ(reason_of(access + ",\"task\":1.5}"), "task: is not a whole number of at least 0");
  EXPECT_EQ(reason_of(access + ",\"task\":4294967296}"),
            "task: is not a whole number of at least 0");
  EXPECT_EQ(reason_of(access + ",\"device\":10000}"), "device: is not a GPU number");
  EXPECT_EQ(reason_of(access + ",\"use\":7}"), "use: must be a string");
  EXPECT_EQ(reason_of(access + ",\"use\":\"rw\"}"),
            "use: is not one of read, write and read_write");
  EXPECT_EQ(reason_of(access + ",\"task\":\"7\"}"), "task: is not a number");
  EXPECT_EQ(reason_of(access + ",\"task\":null}"), "task: is null");
  EXPECT_EQ(reason_of(access + ",\"task\":[1]}"), "task: is a list");
  EXPECT_EQ(reason_of(access + ",\"task\":{}}"), "task: is an object");
  EXPECT_EQ(reason_of(access + ",\"passes\":0}"), "its passes are not a number above 0");
  EXPECT_EQ(reason_of(access + ",\"duration_ns\":9223372036854775807}"),
            "it ends after the end of time");
  EXPECT_EQ(reason_of(access + "} {}"), "data follows the object");
  EXPECT_EQ(reason_of("{\"event\":\"mark\",\"time_ns\":1,\"tag\":\"\"}"), "its text is empty");
  EXPECT_EQ(reason_of("{\"event\":\"alloc\",\"time_ns\":1,\"object\":2,\"bytes\":0}"),
            "it allocates no bytes");
  EXPECT_EQ(
      reason_of("{\"event\":\"alloc\",\"time_ns\":1,\"object\":2,\"bytes\":1,\"home\":\"gpu\"}"),
      "home: names no place");
}

TEST_F(JsonTrace, AHeaderOfAnotherVersionIsFatal) {
  write_text(path_, "{\"vmart_trace\":4}\n");
  EXPECT_NE(error_of([this] { open_trace(path_); }).find("vmart_trace: is 4, not 1 to 3"),
            std::string::npos);
  write_text(path_, "{\"vmart_trace\":1,\"nam\":\"x\"}\n");
  EXPECT_NE(error_of([this] { open_trace(path_); }).find("nam: is not a known key"),
            std::string::npos);
}

TEST_F(JsonTrace, NoMutationCrashes) {
  write_all(path_, json_header, random_events(run_seed(), 60));
  const std::string whole = text_of(path_);
  std::mt19937_64 random(run_seed());
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(fmt::format("VMART_SEED={}, round {}", run_seed(), round));
    std::string text = whole;
    for (std::uint64_t changes = 1 + random() % 8; changes > 0; --changes) {
      const char* const telling = "{}[]\",:0-e\\\n";
      text[random() % text.size()] =
          random() % 2 == 0 ? static_cast<char>(random()) : telling[random() % 12];
    }
    write_text(path_, text);
    // A modified header is an Error; a modified event is a bad line or another event.
    error_of([this] {
      const auto source = open_trace(path_, 1000);
      for (ToldEvent& told : read_all(*source)) {
        if (!told.tag.empty()) told.event.tag = TagId{1};
        ASSERT_EQ(fault_of(told.event), nullptr);
      }
    });
  }
}

TEST_F(JsonTrace, OtherEndingsAreRefused) {
  EXPECT_NE(error_of([this] {
              create_trace(folder_ / "x.csv", json_header);
            }).find("must end in .jsonl or .vtrace"),
            std::string::npos);
}

}  // namespace
}  // namespace vma
