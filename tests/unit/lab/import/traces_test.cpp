// Goal: every trace in bench/traces converts without a bad line, and the number of events matches
// the requests, kernels and uses in its description.

#include "lab/import/trace_formats.hpp"
#include "lab/replay/replay.hpp"
#include "lab/trace/line_reader.hpp"
#include "lab/trace/trace_files.hpp"
#include "machine/machine_file.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

namespace vma {
namespace {

struct Expected {
  const char* format;
  const char* file;
  std::uint64_t allocations, accesses;

  friend void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.file; }
};

/// Values that make a trace small enough for a test.
std::vector<std::string> short_values(const std::string& format) {
  if (format == "g10") return {"iterations=1"};
  if (format == "mooncake") return {"keep_s=0"};
  if (format == "dlrm") return {"lookups=1e6", "batches=2"};
  return {};
}

class Traces : public testing::TestWithParam<Expected> {
 protected:
  TemporaryFolder folder_;
};

TEST_P(Traces, Convert) {
  if (!reads_compressed()) GTEST_SKIP() << "built without zlib";
  ConvertOptions options;
  options.format = GetParam().format;
  options.input = std::string(VMART_TRACES "/") + GetParam().file;
  options.output = folder_ / "out.vtrace";
  options.values = short_values(options.format);
  const ConvertReport report = convert_trace(options);
  EXPECT_EQ(report.bad.count(), 0u);
  const TraceAudit& audit = report.audit;
  EXPECT_EQ(audit.fault_count(), 0u);
  EXPECT_EQ(audit.count(TraceEventKind::allocation), GetParam().allocations);
  if (GetParam().accesses > 0) {
    EXPECT_EQ(audit.count(TraceEventKind::access), GetParam().accesses);
  }
}

// A closed loop has the accesses of the open one, and as many bytes. Without microbatches it takes
// as long.
TEST_P(Traces, AreTheSameInBothLoops) {
  if (!reads_compressed()) GTEST_SKIP() << "built without zlib";
  ConvertOptions options;
  options.format = GetParam().format;
  if (options.format == "dlrm") GTEST_SKIP() << "its trace is an open loop";
  options.input = std::string(VMART_TRACES "/") + GetParam().file;
  options.output = folder_ / "out.vtrace";
  const auto audit_of = [&](const std::string& closed) {
    options.values = short_values(options.format);
    options.values.push_back(closed);
    return convert_trace(options).audit;
  };
  const TraceAudit open = audit_of("closed=0"), closed = audit_of("closed=1");
  EXPECT_EQ(closed.fault_count(), 0u);
  EXPECT_EQ(open.count(TraceEventKind::task), 0u);
  EXPECT_GT(closed.count(TraceEventKind::task), 0u);
  EXPECT_EQ(closed.count(TraceEventKind::access), open.count(TraceEventKind::access));
  EXPECT_EQ(closed.bytes_live_max() / 1024, open.bytes_live_max() / 1024);
  EXPECT_NEAR(closed.bytes_read(), open.bytes_read(), 1e-6 * open.bytes_read());
  EXPECT_NEAR(closed.bytes_written(), open.bytes_written(), 1e-6 * open.bytes_written());
  const double end = static_cast<double>(open.end().count());
  EXPECT_NEAR(static_cast<double>(closed.end().count()), end, 1e-6 * end);
}

// If everything fits into HBM, work takes as long as the trace says.
TEST_P(Traces, TakeTheirOwnTimeInEnoughMemory) {
  if (!reads_compressed()) GTEST_SKIP() << "built without zlib";
  ConvertOptions options;
  options.format = GetParam().format;
  if (options.format == "mooncake" || options.format == "dlrm" || options.format == "vidur")
    GTEST_SKIP() << "it asks for more than four GPUs have, or for nothing but memory's time";
  options.input = std::string(VMART_TRACES "/") + GetParam().file;
  options.output = folder_ / "out.vtrace";
  options.values = short_values(options.format);
  options.values.push_back("closed=0");
  const ConvertReport converted = convert_trace(options);
  ReplayMachine machine = replay_machine(load_machine("h200x4"));
  for (PlaceState& place : machine.places) place.capacity_bytes = std::uint64_t{1} << 50;
  for (const std::string_view router : router_names()) {
    Replay replay(machine, {}, make_policy("stay_put"), make_router(std::string(router)));
    const ReplayReport report = replay.run(*open_trace(options.output));
    EXPECT_EQ(report.accesses, converted.audit.count(TraceEventKind::access)) << router;
    const double own_s = std::chrono::duration<double>(converted.audit.end()).count();
    EXPECT_NEAR(report.seconds(), own_s, 0.02 * own_s) << router;
  }
}

// A Mooncake request writes or reads each block once and reads it again while it generates tokens.
// A request with its own cache is a write, plus a read and a write while it generates tokens. The
// number of accesses is unknown for random look-ups.
INSTANTIATE_TEST_SUITE_P(
    All, Traces,
    testing::Values(
        Expected{"mooncake", "mooncake/conversation_trace.jsonl.gz", 182'790, 2 * 288'500},
        Expected{"azure", "azure/AzureLLMInferenceTrace_conv.csv.gz", 19'366, 3 * 19'366},
        Expected{"vidur", "vidur/arxiv_summarization_lengths.csv.gz", 28'257, 3 * 28'257},
        Expected{"llmservingsim", "llmservingsim/Llama-3.1-8B.vllm_requests.jsonl.gz", 300, 900},
        Expected{"llmservingsim",
                 "llmservingsim/Qwen3-30B-A3B-Instruct-2507.vllm_requests.jsonl.gz", 300, 900},
        Expected{"llmservingsim", "llmservingsim/Qwen3-32B.vllm_requests.jsonl.gz", 300, 900},
        Expected{"g10", "g10/g10_BERT_Base_bs256_kernels.jsonl.gz", 1463, 3800},
        Expected{"g10", "g10/g10_BERT_Base_bs512_kernels.jsonl.gz", 1463, 3800},
        Expected{"g10", "g10/g10_BERT_Base_bs1024_kernels.jsonl.gz", 1463, 3800},
        Expected{"g10", "g10/g10_VIT_bs1280_kernels.jsonl.gz", 1563, 4157},
        Expected{"g10", "g10/g10_Inceptionv3_bs1536_kernels.jsonl.gz", 2171, 3940},
        Expected{"g10", "g10/g10_ResNet152_bs1280_kernels.jsonl.gz", 3330, 5870},
        Expected{"g10", "g10/g10_SENet154_bs1024_kernels.jsonl.gz", 4341, 8468},
        Expected{"dlrm", "dlrm/locality_stats_2021.txt.gz", 35, 0},
        Expected{"dlrm", "dlrm/locality_stats_2022.txt.gz", 19, 0}),
    [](const auto& info) {
      std::string name = info.param.format + std::string("_") +
                         std::filesystem::path(info.param.file).filename().string();
      for (char& character : name) {
        if (std::isalnum(static_cast<unsigned char>(character)) == 0) character = '_';
      }
      return name;
    });

TEST(TracesFolder, HasNoFileThatThisTestForgets) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(VMART_TRACES)) {
    const std::string name = entry.path().filename().string();
    const bool is_trace =
        name.ends_with("_kernels.jsonl.gz") || name.ends_with("_lengths.csv.gz") ||
        name.ends_with("_requests.jsonl.gz") || name.ends_with("_trace.jsonl.gz") ||
        name.ends_with("_conv.csv.gz") || name.starts_with("locality_stats_");
    if (is_trace) ++files;
  }
  EXPECT_EQ(files, 15u);
}

}  // namespace
}  // namespace vma
