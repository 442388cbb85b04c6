// Goal: our own traces change their form, and nothing else.

#include "lab/import/trace_formats.hpp"
#include "lab/trace/trace_files.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

class OwnTraces : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(OwnTraces, ChangeTheirForm) {
  const std::vector<ToldEvent> events = random_events(1, 500);
  const TraceHeader header{"a", "b", "c", "d"};
  write_all(folder_ / "a.jsonl", header, events);
  ConvertOptions options;
  options.format = "trace";
  options.input = folder_ / "a.jsonl";
  options.output = folder_ / "out.vtrace";
  convert_trace(options);
  EXPECT_EQ(read_all(options.output), events);
  EXPECT_EQ(open_trace(options.output)->header(), header);
}

TEST_F(OwnTraces, AreNotMadeOfThemselves) {
  ConvertOptions options;
  options.format = "trace";
  options.input = options.output = folder_ / "a.jsonl";
  write_text(options.input, "{\"vmart_trace\":1}\n");
  EXPECT_NE(error_of([&] { convert_trace(options); }).find("is both the input"), std::string::npos);
  EXPECT_EQ(text_of(options.input), "{\"vmart_trace\":1}\n");
}

}  // namespace
}  // namespace vma
