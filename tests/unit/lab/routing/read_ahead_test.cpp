// Goal: what a router sees ahead does not depend on how a trace is cut into batches.

#include "lab/routing/router.hpp"

#include "lab/trace/trace_sink.hpp"
#include "unit/lab/trace/listed_trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vma {
namespace {

template <typename Trace>
std::vector<std::size_t> seen(Trace& trace, std::size_t events) {
  std::vector<std::size_t> counts;
  ReadAhead source(trace);
  for (auto batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const TraceEvent& event : batch) {
      const std::span<const TraceEvent> rest = source.from(event);
      EXPECT_EQ(rest.front().object, counts.size());
      EXPECT_EQ(rest.back().object, counts.size() + rest.size() - 1);
      counts.push_back(rest.size());
    }
  }
  EXPECT_EQ(counts.size(), events);
  return counts;
}

TEST(ReadAhead, ShowsTheSameWhateverTheBatchesAre) {
  for (const std::size_t events : {0u, 1u, 6u, 7u, 1024u, 1025u, 5000u}) {
    ListedTrace by_seven;
    KeptTrace by_thousand;
    for (std::uint64_t i = 0; i < events; ++i) by_seven.access(Time(0), i, 1);
    for (auto batch = by_seven.next(); !batch.empty(); batch = by_seven.next())
      by_thousand.write(batch, by_seven.tags());
    ListedTrace again;
    for (const TraceEvent& event : by_thousand.events()) again.add(event);
    const std::vector<std::size_t> counts = seen(again, events);
    EXPECT_EQ(counts, seen(by_thousand, events));
    for (std::size_t i = 0; i < events; ++i)
      ASSERT_EQ(counts[i], std::min(ReadAhead::ahead_max + 1, events - i));
  }
}

}  // namespace
}  // namespace vma
