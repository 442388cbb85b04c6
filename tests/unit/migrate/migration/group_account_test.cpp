// Goal: the report of a group adds up what its requests did, its error is of the kind that matters
// most and names the requests, and progress is that of all of them. Method: reports made by hand.
#include "migrate/migration/group.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;

RequestReport ended(Outcome outcome, int moved) {
  RequestReport one;
  one.report.outcome = outcome;
  one.report.chunks = 2;
  one.report.chunks_moved = moved;
  return one;
}

RequestReport failed(ErrorKind kind, const std::string& why, int moved = 0) {
  RequestReport one = ended(moved == 0 ? Outcome::failed : Outcome::partly, moved);
  if (kind == ErrorKind::cancelled) one.report.outcome = Outcome::cancelled;
  one.error = Error(kind, "vma::migrate", why, 7);
  return one;
}

Error error_of(std::vector<RequestReport> requests) {
  GroupReport group;
  group.requests = std::move(requests);
  return group_error("vma::migrate", std::move(group));
}

class GroupAccounts : public testing::Test {
 protected:
  std::shared_ptr<GroupAccount> make(std::vector<MigrationProgress> requested,
                                     GroupAccount::Progress on_progress = {}) {
    return std::make_shared<GroupAccount>(rig_.machine().clock(), std::move(requested),
                                          std::move(on_progress));
  }
  Outcome outcome(const std::vector<RequestReport>& requests) {
    return make({})->total(requests).outcome;
  }
  MemoryRig rig_;
};

TEST_F(GroupAccounts, TheErrorIsOfTheKindThatMattersMost) {
  const RequestReport done = ended(Outcome::done, 2);
  const RequestReport cancelled = failed(ErrorKind::cancelled, "not begun");
  const RequestReport full = failed(ErrorKind::out_of_memory, "full");
  const RequestReport lost = failed(ErrorKind::poisoned, "lost");
  const Error both = error_of({cancelled, done, full});
  EXPECT_EQ(both.kind(), ErrorKind::out_of_memory) << "the others were cancelled because of it";
  EXPECT_EQ(both.native(), 7);
  EXPECT_EQ(error_of({full, lost}).kind(), ErrorKind::poisoned);
  EXPECT_EQ(error_of({cancelled, done}).kind(), ErrorKind::cancelled);
}

TEST_F(GroupAccounts, TheTextNamesTheRequestsOfEachReason) {
  std::vector<RequestReport> requests(12, failed(ErrorKind::busy, "late"));
  requests[1] = ended(Outcome::done, 2);
  for (const char* why : {"b", "c", "d", "e"}) {
    requests.push_back(failed(ErrorKind::pinned, why));
  }
  const Error error = error_of(requests);
  EXPECT_TRUE(says(error, "vma::migrate: busy: 15 of 16 requests did not move in full"))
      << error.what();
  EXPECT_TRUE(says(error, "requests 0, 2, 3, 4, 5, 6, 7, 8 and 3 more: vma::migrate: busy: late"))
      << error.what();
  EXPECT_TRUE(says(error, "; request 12: vma::migrate: pinned: b;")) << error.what();
  EXPECT_TRUE(says(error, "; 2 more for other reasons")) << error.what();
  ASSERT_NE(error.group(), nullptr);
  EXPECT_EQ(error.group()->failed(), 15u);
}

TEST_F(GroupAccounts, TheOutcomeIsThatOfTheWhole) {
  const RequestReport done = ended(Outcome::done, 0);
  const RequestReport cancelled = failed(ErrorKind::cancelled, "by the program", 1);
  const RequestReport full = failed(ErrorKind::out_of_memory, "full");
  const RequestReport half = failed(ErrorKind::out_of_memory, "full", 1);
  RequestReport running = ended(Outcome::partly, 0);
  EXPECT_EQ(outcome({}), Outcome::done);
  EXPECT_EQ(outcome({done, done}), Outcome::done);
  EXPECT_EQ(outcome({done, cancelled}), Outcome::cancelled);
  EXPECT_EQ(outcome({full, full}), Outcome::failed);
  EXPECT_EQ(outcome({full, done}), Outcome::partly);
  EXPECT_EQ(outcome({full, half}), Outcome::partly);
  EXPECT_EQ(outcome({full, cancelled}), Outcome::partly);
  EXPECT_EQ(outcome({full, running}), Outcome::partly) << "one has not ended";
}

TEST_F(GroupAccounts, TheTotalAddsUpAndCountsEachStopOnce) {
  const auto account = make({});
  account->stopped(std::nullopt, microseconds(300));
  account->gave_up(2);

  account->ended();
  RequestReport one = ended(Outcome::done, 2), two = ended(Outcome::done, 1);
  one.report.bytes_moved = 10;
  two.report.bytes_moved = 5;
  one.report.route = "gpu(0)->gpu(1), host(0)->gpu(1)";
  two.report.route = "host(0)->gpu(1)";
  one.report.reasons["capture"] = 1;
  two.report.reasons["capture"] = 2;
  one.report.retries = two.report.retries = 2;
  one.report.stall.count = two.report.stall.count = 1;
  one.report.phases.wait = microseconds(3);
  two.report.phases.wait = microseconds(4);
  one.report.phases.map = microseconds(3);
  two.report.phases.map = microseconds(4);
  const MigrationReport total = account->total(std::vector{one, two});
  EXPECT_EQ(total.bytes_moved, 15u);
  EXPECT_EQ(total.chunks_moved, 3);
  EXPECT_EQ(total.route, "gpu(0)->gpu(1), host(0)->gpu(1)");
  EXPECT_EQ(total.reasons.at("capture"), 3);
  EXPECT_EQ(total.retries, 2);
  EXPECT_EQ(total.stall.count, 1u);
  EXPECT_EQ(total.stall.max, microseconds(300));
  EXPECT_EQ(total.skew.count, 0u) << "a hold has none";
  EXPECT_EQ(total.phases.wait, microseconds(4));
  EXPECT_EQ(total.phases.map, microseconds(7));
}

TEST_F(GroupAccounts, ProgressIsTheSumOfAllRequests) {
  std::vector<MigrationProgress> seen;
  MigrationProgress first{2, 0, 20, 0}, second{3, 0, 30, 0};
  const auto account =
      make({first, second}, [&](const MigrationProgress& now) { seen.push_back(now); });
  const GroupAccount::Progress of_first = account->progress_of(0);
  const GroupAccount::Progress of_second = account->progress_of(1);
  of_first({2, 1, 20, 10});
  of_second({3, 3, 30, 30});
  of_first({2, 2, 20, 20});
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].chunks, 5);
  EXPECT_EQ(seen[0].chunks_moved, 1);
  EXPECT_EQ(seen[1].chunks_moved, 4);
  EXPECT_EQ(seen[2].chunks_moved, 5);
  EXPECT_EQ(seen[2].bytes_asked, 50u);
  EXPECT_EQ(seen[2].bytes_moved, 50u);
  EXPECT_FALSE(make({first})->progress_of(0)) << "nobody asks";
}

}  // namespace
}  // namespace vma
