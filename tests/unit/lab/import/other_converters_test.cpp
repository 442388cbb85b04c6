// Goal: training kernels, locality statistics and our own traces are converted as the converters'
// headers promise.

#include "lab/trace/trace_files.hpp"
#include "unit/lab/import/convert_rig.hpp"
#include "unit/lab/trace/loop_races.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace vma {
namespace {

using Lines = std::vector<std::string>;
using OtherConverters = Converting;

ToldEvent kernel_use(std::int64_t time_ns, std::uint64_t tensor, std::uint64_t bytes, UseKind use,
                     std::uint32_t task, std::int64_t duration_ns) {
  ToldEvent told = access(time_ns, tensor, bytes);
  told.event.use = use;
  told.event.task = task;
  told.event.duration = Time(duration_ns);
  return told;
}

ToldEvent mark(std::int64_t time_ns, const std::string& text) {
  ToldEvent told;
  told.event.kind = TraceEventKind::mark;
  told.event.time = Time(time_ns);
  told.tag = text;
  return told;
}

constexpr const char* tensors = "tensor,is_weight,bytes\n1,1,100\n2,0,200\n3,0,300\n4,0,0\n";

constexpr std::string_view two_kernels = R"({"k":0,"name":"a","us":1.5,"in":[1],"out":[2]})"
                                         "\n"
                                         R"({"k":1,"name":"b","us":0.5,"in":[2,1],"out":[1,3]})"
                                         "\n";

// Both kernels use weight 1; tensor 2 goes from the first kernel to the second; only the second
// uses 3.
TEST_F(OtherConverters, G10) {
  write_text(folder_ / "net_tensors.csv", tensors);
  const auto events =
      convert("g10", "net_kernels.jsonl", two_kernels, {"iterations=2", "closed=0"});
  std::vector<ToldEvent> expected;
  for (std::uint32_t iteration = 0; iteration < 2; ++iteration) {
    const std::int64_t a = 2000 * iteration, b = a + 1500, end = b + 500;
    const std::uint32_t task = 2 * iteration + 1;
    expected.push_back(mark(a, fmt::format("iteration {}", iteration + 1)));
    if (iteration == 0) expected.push_back(allocation(a, 1, 100, "weights"));
    expected.push_back(allocation(a, 2, 200, "tensors"));
    expected.push_back(kernel_use(a, 1, 100, UseKind::read, task, 1500));
    expected.push_back(kernel_use(a, 2, 200, UseKind::write, task, 1500));
    expected.push_back(allocation(b, 3, 300, "tensors"));
    expected.push_back(kernel_use(b, 1, 100, UseKind::read_write, task + 1, 500));
    expected.push_back(kernel_use(b, 2, 200, UseKind::read, task + 1, 500));
    expected.push_back(kernel_use(b, 3, 300, UseKind::write, task + 1, 500));
    expected.push_back(free_of(end, 2));
    expected.push_back(free_of(end, 3));
  }
  expected.push_back(free_of(4000, 1));
  EXPECT_EQ(events, expected);
}

ToldEvent at_end_of(ToldEvent told, std::uint32_t task) {
  told.event.task = task;
  return told;
}

// The same training: every tensor but the weight is another object each time, numbered from 5 on.
TEST_F(OtherConverters, G10AsAClosedLoop) {
  write_text(folder_ / "net_tensors.csv", tensors);
  const auto events = convert("g10", "net_kernels.jsonl", two_kernels, {"iterations=2"});
  std::vector<ToldEvent> expected;
  for (std::uint32_t iteration = 0; iteration < 2; ++iteration) {
    const std::int64_t a = 2000 * iteration, b = a + 1500, end = b + 500;
    const std::uint32_t before = 2 * iteration, task = before + 1;
    const std::uint64_t two = 5 + 2 * iteration, three = two + 1;
    expected.push_back(at_end_of(mark(a, fmt::format("iteration {}", iteration + 1)), before));
    if (iteration == 0) expected.push_back(allocation(a, 1, 100, "weights"));
    expected.push_back(at_end_of(allocation(a, two, 200, "tensors"), before));
    expected.push_back(task_of(a, task, 1500));
    if (before > 0) expected.push_back(after_of(a, task, before));
    expected.push_back(kernel_use(a, 1, 100, UseKind::read, task, 0));
    expected.push_back(kernel_use(a, two, 200, UseKind::write, task, 0));
    expected.push_back(at_end_of(allocation(b, three, 300, "tensors"), task));
    expected.push_back(task_of(b, task + 1, 500));
    expected.push_back(after_of(b, task + 1, task));
    expected.push_back(kernel_use(b, 1, 100, UseKind::read_write, task + 1, 0));
    expected.push_back(kernel_use(b, two, 200, UseKind::read, task + 1, 0));
    expected.push_back(kernel_use(b, three, 300, UseKind::write, task + 1, 0));
    expected.push_back(at_end_of(free_of(end, two), task + 1));
    expected.push_back(at_end_of(free_of(end, three), task + 1));
  }
  expected.push_back(at_end_of(free_of(4000, 1), 4));
  EXPECT_EQ(events, expected);
}

// The plan of the same two kernels: the weight is used again in 1.5 us and then, by the next
// iteration, in 0.5 us; tensor 2 by the second kernel, and never again; tensor 3 only once.
TEST_F(OtherConverters, KernelsOfG10AnnounceWhenTheirTensorsAreUsedNext) {
  write_text(folder_ / "net_tensors.csv", tensors);
  const auto events = convert("g10", "net_kernels.jsonl", two_kernels, {"iterations=2", "hints=1"});
  std::vector<std::string> hints;
  for (const ToldEvent& told : events) {
    const TraceEvent& event = told.event;
    if (event.kind == TraceEventKind::hint)
      hints.push_back(fmt::format("task {}: {} bytes of {} in {} ns", event.task, event.bytes,
                                  event.object, event.duration.count()));
  }
  EXPECT_EQ(hints, (std::vector<std::string>{
                       "task 1: 100 bytes of 1 in 1500 ns", "task 1: 200 bytes of 5 in 1500 ns",
                       "task 2: 100 bytes of 1 in 500 ns", "task 3: 100 bytes of 1 in 1500 ns",
                       "task 3: 200 bytes of 7 in 1500 ns", "task 4: 100 bytes of 1 in 500 ns"}));
  auto without = events;
  std::erase_if(without,
                [](const ToldEvent& told) { return told.event.kind == TraceEventKind::hint; });
  EXPECT_EQ(without, convert("g10", "net_kernels.jsonl", two_kernels, {"iterations=2"}));
}

// Two kernels on two stages, two microbatches: while the second stage has the first microbatch, the
// first stage has the second one.
TEST_F(OtherConverters, G10MicrobatchesOverlap) {
  write_text(folder_ / "net_tensors.csv", tensors);
  const auto events =
      convert("g10", "net_kernels.jsonl",
              "{\"us\":2,\"in\":[1],\"out\":[2]}\n{\"us\":2,\"in\":[2],\"out\":[3]}\n",
              {"iterations=1", "stages=2", "microbatches=2"});
  const auto on = [](int device, ToldEvent told) {
    told.event.at = TracePlace(gpu(device));
    return told;
  };
  EXPECT_EQ(events, (std::vector{
                        mark(0, "iteration 1"),
                        allocation(0, 1, 100, "weights"),
                        allocation(0, 5, 100, "tensors"),
                        on(0, task_of(0, 1, 1000)),
                        on(0, kernel_use(0, 1, 100, UseKind::read, 1, 0)),
                        on(0, kernel_use(0, 5, 100, UseKind::write, 1, 0)),
                        at_end_of(allocation(1000, 6, 150, "tensors"), 1),
                        on(1, task_of(1000, 2, 1000)),
                        after_of(1000, 2, 1),
                        on(1, kernel_use(1000, 5, 100, UseKind::read, 2, 0)),
                        on(1, kernel_use(1000, 6, 150, UseKind::write, 2, 0)),
                        at_end_of(allocation(1000, 7, 100, "tensors"), 1),
                        on(0, task_of(1000, 3, 1000)),
                        after_of(1000, 3, 1),
                        on(0, kernel_use(1000, 1, 100, UseKind::read, 3, 0)),
                        on(0, kernel_use(1000, 7, 100, UseKind::write, 3, 0)),
                        at_end_of(free_of(2000, 5), 2),
                        at_end_of(free_of(2000, 6), 2),
                        at_end_of(allocation(2000, 8, 150, "tensors"), 3),
                        on(1, task_of(2000, 4, 1000)),
                        after_of(2000, 4, 3),
                        after_of(2000, 4, 2),
                        on(1, kernel_use(2000, 7, 100, UseKind::read, 4, 0)),
                        on(1, kernel_use(2000, 8, 150, UseKind::write, 4, 0)),
                        at_end_of(free_of(3000, 7), 4),
                        at_end_of(free_of(3000, 8), 4),
                        at_end_of(free_of(3000, 1), 4),
                    }));
}

// Several kernels a stage; a tensor that is used on three stages. Only the weights are shared by
// microbatches.
TEST_F(OtherConverters, G10OrdersWhatUsesOneTensor) {
  write_text(folder_ / "net_tensors.csv",
             "tensor,is_weight,bytes\n1,1,100\n2,0,200\n3,0,300\n4,0,7\n5,1,50\n");
  const auto events =
      convert("g10", "net_kernels.jsonl",
              "{\"us\":1,\"in\":[1],\"out\":[2]}\n{\"us\":2,\"in\":[2],\"out\":[3]}\n"
              "{\"us\":0,\"in\":[3,5],\"out\":[4]}\n{\"us\":3,\"in\":[2,4],\"out\":[]}\n"
              "{\"us\":1,\"in\":[2],\"out\":[1]}\n{\"us\":2,\"in\":[3],\"out\":[5]}\n",
              {"iterations=3", "stages=3", "microbatches=5"});
  EXPECT_EQ(loop_races(events, "weights"), Lines{});
  EXPECT_NE(loop_races(events), Lines{}) << "weights are";
}

TEST_F(OtherConverters, G10IsCutIntoStagesOfEqualTime) {
  write_text(folder_ / "net_tensors.csv", tensors);
  std::string text;
  for (int kernel = 0; kernel < 4; ++kernel) text += "{\"us\":1,\"in\":[1],\"out\":[]}\n";
  text += "{\"us\":4,\"in\":[1],\"out\":[]}\n";
  Lines devices;
  for (const ToldEvent& told :
       convert("g10", "net_kernels.jsonl", text, {"stages=2", "iterations=1", "closed=0"})) {
    if (told.event.kind == TraceEventKind::access) {
      devices.push_back(to_string(told.event.at.place()));
    }
  }
  EXPECT_EQ(devices, (Lines{"gpu(0)", "gpu(0)", "gpu(0)", "gpu(0)", "gpu(1)"}));
}

TEST_F(OtherConverters, G10NamesBadLinesAndWantsItsTable) {
  const std::string good = "{\"us\":1,\"in\":[1],\"out\":[]}\n";
  EXPECT_NE(error_of([&] { convert("g10", "net_kernels.jsonl", good); }).find("in the same folder"),
            std::string::npos);
  write_text(folder_ / "net_tensors.csv", tensors);
  convert("g10", "net_kernels.jsonl",
          good + "{\"us\":1,\"in\":[9],\"out\":[]}\n{\"us\":1,\"in\":[],\"out\":[4]}\n" +
              "{\"us\":-1,\"in\":[],\"out\":[]}\n");
  EXPECT_EQ(bad(), (Lines{"2: in: tensor 9 has no bytes", "3: out: tensor 4 has no bytes",
                          "4: the line: us: -1 is not between 0 and 1000000000000"}));
}

constexpr const char* locality =
    "a.pt\nHistogram of col sizes:\n(0, 1]: 0.9\n"
    "Ratio of index distribution at different column sizes:\n(0, 1]: 1.000\n[0, 1]\n\n"
    "b.pt\nHistogram of col sizes:\n(0, 1]: 0.9\n"
    "Ratio of index distribution at different column sizes:\n"
    "(0, 1]: 0.500\n(1, 3]: 0.500\n[0, 1]\n";

// Of 1 200 000 look-ups, half go to 240 000 rows that are looked up 2.5 times each, and half to 600
// 000 rows that are looked up once. With 120 000 rows per object these are two objects of 300 000
// look-ups each and five of 120 000.
TEST_F(OtherConverters, Dlrm) {
  const auto events = convert("dlrm", "a.txt", locality,
                              {"section=1", "lookups=1200000", "row_bytes=10",
                               "object_bytes=1200000", "batches=40", "batch_us=10", "tasks=2"});
  std::map<std::uint64_t, double> lookups;
  std::size_t accesses = 0, allocations = 0;
  for (const ToldEvent& told : events) {
    if (told.event.kind == TraceEventKind::allocation) ++allocations;
    if (told.event.kind != TraceEventKind::access) continue;
    ++accesses;
    ASSERT_EQ(told.event.bytes, 1'200'000u);
    ASSERT_EQ(told.event.time.count() / 10'000, (told.event.task - 1) / 2);
    lookups[told.event.object] += static_cast<double>(told.event.passes) * 120'000 / 40;
  }
  EXPECT_EQ(allocations, 7u);
  EXPECT_EQ(accesses, 40u * 2 * 7);
  for (const auto& [object, count] : lookups) {
    const double expected = object < 2 ? 300'000 : 120'000;
    EXPECT_NEAR(count, expected, expected / 100) << object;  // At least 20 standard deviations.
  }
}

TEST_F(OtherConverters, DlrmTakesTheSectionThatIsAskedFor) {
  const auto count = [this](const std::string& section) {
    return convert("dlrm", "a.txt", locality, {section, "lookups=100", "batches=1", "tasks=1"})
        .size();
  };
  EXPECT_EQ(count("section=0"), 3u);
  EXPECT_NE(error_of([&] { count("section=2"); }).find("has 2 sections, but not number 2"),
            std::string::npos);
}

TEST_F(OtherConverters, DlrmNamesBadLines) {
  convert("dlrm", "a.txt",
          "Ratio of index distribution at different column sizes:\n(0, 1]: 0.5\n(1, 2: 0.1\n"
          "(2, 4]: x\n(4, 4]: 0.1\n(32+: 0.1\n");
  ASSERT_EQ(bad().size(), 3u);
  EXPECT_TRUE(bad()[0].starts_with("3: ")) << bad()[0];
  EXPECT_TRUE(bad()[2].starts_with("5: ")) << bad()[2];
}

ToldEvent io(std::int64_t time_ns, std::uint64_t object, std::uint64_t offset, std::uint64_t bytes,
             UseKind use, int device) {
  ToldEvent told = access(time_ns, object, bytes);
  told.event.offset = offset;
  told.event.use = use;
  told.event.at = TracePlace(gpu(device));
  return told;
}

// 8 KiB are 16 blocks. The third I/O goes over the end of the first region into the second.
constexpr std::string_view three_ios =
    "version,time,op,size,lbn\n1,50,2a,512,3\n1,50,28,4096,100\n1,53,28,1024,15\n";

TEST_F(OtherConverters, DisksAreCutIntoRegions) {
  const std::vector<std::string> values{"region_bytes=8192", "gpus=2", "speed=10"};
  std::vector<ToldEvent> expected{
      allocation(0, 0, 8192, "disk"),
      io(0, 0, 0, 8192, UseKind::write, 0),
      allocation(50'000'000, 1, 8192, "disk"),
      io(50'000'000, 1, 0, 8192, UseKind::read, 1),
      io(300'000'000, 0, 0, 8192, UseKind::read, 0),
      allocation(300'000'000, 2, 8192, "disk"),
      io(300'000'000, 2, 0, 8192, UseKind::read, 0),
  };
  EXPECT_EQ(convert("vscsi", "a.csv", three_ios, values), expected);
  std::vector<std::string> parts = values;
  parts.push_back("whole=0");
  expected[1] = io(0, 0, 1536, 512, UseKind::write, 0);
  expected[3] = io(50'000'000, 1, 2048, 4096, UseKind::read, 1);
  expected[4] = io(300'000'000, 0, 7680, 512, UseKind::read, 0);
  expected[6] = io(300'000'000, 2, 0, 512, UseKind::read, 0);
  EXPECT_EQ(convert("vscsi", "a.csv", three_ios, parts), expected);
}

TEST_F(OtherConverters, DisksNameBadLines) {
  convert("vscsi", "a.csv",
          "version,time,op,size,lbn\n1,50,2a,512,3\n1,49,2a,512,3\n1,50,35,512,3\n1,50,2a,0,3\n"
          "1,50,2a,512,-3\n1,50,88,512,4\n");
  ASSERT_EQ(bad().size(), 4u);
  EXPECT_TRUE(bad()[0].starts_with("3: is earlier")) << bad()[0];
  EXPECT_TRUE(bad()[1].starts_with("4: op: \"35\"")) << bad()[1];
  EXPECT_TRUE(bad()[2].starts_with("5: size")) << bad()[2];
  EXPECT_TRUE(bad()[3].starts_with("6: lbn")) << bad()[3];
}

TEST_F(OtherConverters, OurOwnTracesChangeTheirForm) {
  const std::vector<ToldEvent> events = random_events(1, 500);
  const TraceHeader header{"a", "b", "c", "d"};
  write_all(folder_ / "a.jsonl", header, events);
  EXPECT_EQ(convert("trace", "a.jsonl", text_of(folder_ / "a.jsonl")), events);
  EXPECT_EQ(open_trace(folder_ / "out.vtrace")->header(), header);
}

TEST_F(OtherConverters, AFileIsNotMadeOfItself) {
  ConvertOptions options;
  options.format = "trace";
  options.input = options.output = folder_ / "a.jsonl";
  write_text(options.input, "{\"vmart_trace\":1}\n");
  EXPECT_NE(error_of([&] { convert_trace(options); }).find("is both the input"), std::string::npos);
  EXPECT_EQ(text_of(options.input), "{\"vmart_trace\":1}\n");
}

TEST_F(OtherConverters, HeadersSayWhereFromAndHow) {
  convert("mooncake", "a.jsonl",
          "{\"timestamp\":0,\"input_length\":1,\"output_length\":0,\"hash_ids\":[1]}\n",
          {"keep_s=7"});
  const TraceHeader header = open_trace(folder_ / "out.vtrace")->header();
  EXPECT_EQ(header.name, "mooncake a.jsonl");
  EXPECT_EQ(header.origin, "kvcache-ai/Mooncake (FAST 2025): a.jsonl");
  EXPECT_EQ(header.licence, "Apache-2.0");
  EXPECT_EQ(header.made,
            "vmart-lab convert mooncake seed=1 closed=1 gpus=4 hints=0 keep_s=7 "
            "prefill_tokens_s=0 requests=0 token_bytes=131072 token_us=30000 weight_bytes=0");
}

}  // namespace
}  // namespace vma
