// Goal: the single-failure sweep fails every row of the call table except the known ones, each with
// a reason. A new driver call of the runtime shows up here.

#include "faults/sweep.hpp"
#include "memory/chunk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace vma {
namespace {

const std::map<Call, std::string>& not_failed() {
  const std::string question = "a question that no driver refuses";
  const std::string tests_only = "only tests and tools ask it";
  const std::string graphs = "graphs of chains are made otherwise";
  const std::string sharing = "failed in sharing_fault_test.cpp";
  const std::string users = "the runtime leaves it to the program";
  const std::string pools = "the sweeps of tests/unit/pools fail it";
  static const std::map<Call, std::string> reasons{
      {Call::device_info, question},
      {Call::can_access_peer, question},
      {Call::link_info, question},
      {Call::host_node_count, question},
      {Call::granularity, question},
      {Call::free_bytes, question},
      {Call::context_active, question},
      {Call::current_context, question},
      {Call::set_current_context, question},
      {Call::context_device, question},
      {Call::stream_id, question},
      {Call::stream_kind, question},
      {Call::export_types, question},
      {Call::create_exportable, sharing},
      {Call::export_chunk, sharing},
      {Call::import_chunk, sharing},
      {Call::retain_handle, tests_only},
      {Call::address_range, tests_only},
      {Call::pointer_info, tests_only},
      {Call::create_green_context, tests_only},
      {Call::begin_capture, users},
      {Call::end_capture, users},
      {Call::instantiate, graphs},
      {Call::destroy_graph, graphs},
      {Call::stream_now, pools},
      {Call::at_graph_end, pools},
      {Call::allocate_plain, users},
      {Call::create_context, users},
      {Call::free_plain, users},
  };
  return reasons;
}

TEST(Coverage, EachCallWasFailedOrHasAReason) {
  if (thinned(1) > 1) GTEST_SKIP() << "SKIPPED: a sample of calls is failed here";
  LifePlan plan;
  plan.seed = run_seed();
  for (int number = 0;; ++number) {
    plan.fail = {number};
    if (expect_whole(plan).fired == 0) break;
  }
  // Lives that suspend make few other calls, which another sweep fails.
  plan.suspends = true;
  plan.fail = {};
  const std::vector<Call> seen = expect_whole(plan).seen;
  for (const Call call : {Call::suspend, Call::suspend_everything, Call::resume}) {
    plan.fail = {static_cast<int>(std::ranges::find(seen, call) - seen.begin())};
    expect_whole(plan);
  }
  for (int row = 0; row < call_count; ++row) {
    const Call call{row};
    const bool failed = failed_calls().contains(call);
    const bool unasked = call == Call::access && !access_is_verified;  // Except in checked builds.
    const bool excused = unasked || not_failed().contains(call);
    EXPECT_TRUE(failed || excused) << to_string(call) << " was never failed, and nothing says why";
    EXPECT_FALSE(failed && excused) << to_string(call) << " was failed: its excuse can go";
  }
}

}  // namespace
}  // namespace vma
