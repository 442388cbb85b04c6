// Goal: several allocations move with one C call: arrays of requests and reports of any version,
// the handle of a group, and what requests that fail leave in the reports.
#include "unit/abi/abi_rig.hpp"

#include <atomic>
#include <cstddef>
#include <future>
#include <string>

namespace vma {
namespace {

class GroupCalls : public AbiTest {
 protected:
  GroupCalls() {
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_attach(stream(gpu)), VMART_OK);
    for (std::uint64_t i = 0; i < 3; ++i) words_.push_back(filled(2, i * 1000));
  }
  ~GroupCalls() override {
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(wrong(words_[i], 2, i * 1000), 0u);
      vma::free(words_[i]);
    }
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_detach(stream(gpu)), VMART_OK);
  }
  /// One for each allocation.
  std::vector<vmart_move_request> requests_to(vmart_place to) const {
    std::vector<vmart_move_request> requests;
    for (std::uint64_t* words : words_) {
      requests.push_back({sizeof(vmart_move_request), words + 1, 0, 0, to});
    }
    return requests;
  }
  static std::vector<vmart_migration_report> reports(std::size_t count) {
    std::vector<vmart_migration_report> reports(count);
    for (vmart_migration_report& one : reports) one.size_bytes = sizeof one;
    return reports;
  }

  std::vector<std::uint64_t*> words_;
};

TEST_F(GroupCalls, AllMoveBehindOneStop) {
  const auto requests = requests_to(c_gpu(1));
  auto total = reports(1), each = reports(3);
  ASSERT_EQ(vmart_migrate_many(requests.data(), 3, nullptr, total.data(), each.data()), VMART_OK)
      << vmart_last_error();
  EXPECT_EQ(total[0].outcome, VMART_DONE);
  EXPECT_EQ(total[0].status, VMART_OK);
  EXPECT_EQ(total[0].chunks_moved, 6);
  EXPECT_EQ(total[0].bytes_moved, 6 * chunk_bytes);
  for (const vmart_migration_report& one : each) {
    EXPECT_EQ(one.outcome, VMART_DONE);
    EXPECT_EQ(one.status, VMART_OK);
    EXPECT_EQ(one.chunks_moved, 2);
    EXPECT_EQ(one.stall_max_ns, total[0].stall_max_ns) << "the same hold";
  }
  for (std::uint64_t* words : words_) EXPECT_EQ(home_of(words), "gpu(1)");
}

TEST_F(GroupCalls, ReportsMayBeLeftOut) {
  EXPECT_EQ(vmart_migrate_many(requests_to(c_gpu(1)).data(), 3, nullptr, nullptr, nullptr),
            VMART_OK);
  for (std::uint64_t* words : words_) EXPECT_EQ(home_of(words), "gpu(1)");
  EXPECT_EQ(vmart_migrate_many(nullptr, 0, nullptr, nullptr, nullptr), VMART_OK) << "no requests";
}

TEST_F(GroupCalls, RangesCountFromTheAddress) {
  auto* bytes = reinterpret_cast<char*>(words_[0]);
  const vmart_move_request requests[] = {
      {sizeof(vmart_move_request), bytes + 8, 0, 8, c_gpu(1)},
      {sizeof(vmart_move_request), bytes + 8, chunk_bytes, 8, c_host(0)},
  };
  EXPECT_EQ(vmart_migrate_many(requests, 2, nullptr, nullptr, nullptr), VMART_OK)
      << vmart_last_error();
  EXPECT_EQ(home_of(bytes), "gpu(1)");
  EXPECT_EQ(home_of(bytes + chunk_bytes), "host(0)");
}

TEST_F(GroupCalls, RequestsThatFailAreNamedAndReported) {
  vmart_pin* pin = nullptr;
  ASSERT_EQ(vmart_pin_create(words_[1], &pin), VMART_OK);
  const auto requests = requests_to(c_gpu(1));
  auto total = reports(1), each = reports(3);
  EXPECT_EQ(vmart_migrate_many(requests.data(), 3, nullptr, total.data(), each.data()),
            VMART_PINNED);
  EXPECT_NE(std::string(vmart_last_error()).find("request 1"), std::string::npos)
      << vmart_last_error();
  EXPECT_EQ(total[0].outcome, VMART_PARTLY);
  EXPECT_EQ(total[0].status, VMART_PINNED);
  EXPECT_EQ(total[0].chunks_moved, 4);
  EXPECT_EQ(each[0].status, VMART_OK);
  EXPECT_EQ(each[1].status, VMART_PINNED);
  EXPECT_EQ(each[1].outcome, VMART_FAILED);
  EXPECT_EQ(each[1].chunks, 2);
  EXPECT_EQ(home_of(words_[0]), "gpu(1)");
  EXPECT_EQ(home_of(words_[1]), "gpu(0)");
  vmart_migrate_options options{};
  options.size_bytes = sizeof options;
  options.all_or_nothing = 1;
  EXPECT_EQ(vmart_migrate_many(requests_to(c_host(0)).data(), 3, &options, nullptr, each.data()),
            VMART_PINNED);
  EXPECT_EQ(each[0].status, VMART_CANCELLED);
  EXPECT_EQ(home_of(words_[0]), "gpu(1)") << "nothing has moved";
  vmart_pin_release(pin);
}

TEST_F(GroupCalls, InvalidRequestsMoveNothing) {
  const auto refused = [&](vmart_status status, const char* text, auto change) {
    auto requests = requests_to(c_gpu(1));
    change(requests[1]);
    auto each = reports(3);
    each[0].chunks = 77;
    EXPECT_EQ(vmart_migrate_many(requests.data(), 3, nullptr, nullptr, each.data()), status);
    EXPECT_NE(std::string(vmart_last_error()).find(text), std::string::npos) << vmart_last_error();
    EXPECT_EQ(each[0].chunks, 77) << "nothing is written";
    vmart_migration_group* group = nullptr;
    EXPECT_EQ(vmart_migrate_many_async(requests.data(), 3, nullptr, &group), status);
    EXPECT_EQ(group, nullptr);
    EXPECT_EQ(home_of(words_[0]), "gpu(0)");
  };
  refused(VMART_INVALID_ARGUMENT, "request 1", [](auto& one) { one.pointer = nullptr; });
  refused(VMART_INVALID_ARGUMENT, "request 1", [](auto& one) { one.offset = 8; });
  refused(VMART_INVALID_ARGUMENT, "request 1", [](auto& one) { one.bytes = 4 * chunk_bytes; });
  refused(VMART_INVALID_ARGUMENT, "request 1", [](auto& one) { one.to = {7, 0}; });
  refused(VMART_INVALID_ARGUMENT, "request 1", [](auto& one) { one.to = c_gpu(9); });
  int outside = 0;
  refused(VMART_UNKNOWN_POINTER, "request 1", [&](auto& one) { one.pointer = &outside; });
  refused(VMART_INVALID_ARGUMENT, "requests[1].size_bytes", [](auto& one) { --one.size_bytes; });
  refused(VMART_INVALID_ARGUMENT, "offset 0", [&](auto& one) {
    one = {sizeof one, words_[0], 0, 8, c_host(0)};  // The first request sends it elsewhere.
  });
}

TEST_F(GroupCalls, NullAndInvalidSizesAreRefused) {
  auto requests = requests_to(c_gpu(1));
  auto each = reports(3);
  vmart_migration_group* group = nullptr;
  const auto refused = [](vmart_status status) { EXPECT_EQ(status, VMART_INVALID_ARGUMENT); };
  refused(vmart_migrate_many(nullptr, 3, nullptr, nullptr, nullptr));
  refused(vmart_migrate_many_async(requests.data(), 3, nullptr, nullptr));
  each[2].size_bytes = 80;
  refused(vmart_migrate_many(requests.data(), 3, nullptr, nullptr, each.data()));
  each = reports(3);
  for (auto& one : each) one.size_bytes = 80;
  refused(vmart_migrate_many(requests.data(), 3, nullptr, nullptr, each.data()));
  refused(vmart_migrate_many(requests.data(), 3, nullptr, each.data(), nullptr));
  for (auto& one : requests) one.size_bytes = 8;
  refused(vmart_migrate_many(requests.data(), 3, nullptr, nullptr, nullptr));
  EXPECT_EQ(home_of(words_[0]), "gpu(0)");
  int done = 0;
  vmart_migration* migration = nullptr;
  refused(vmart_migration_group_wait(nullptr));
  refused(vmart_migration_group_wait_for(nullptr, 0, &done));
  refused(vmart_migration_group_done(nullptr, &done));
  refused(vmart_migration_group_cancel(nullptr));
  refused(vmart_migration_group_report_get(nullptr, nullptr, nullptr, 0));
  refused(vmart_migration_group_request(nullptr, 0, &migration));
  vmart_migration_group_release(nullptr);
  ASSERT_EQ(vmart_migrate_many_async(requests_to(c_gpu(1)).data(), 3, nullptr, &group), VMART_OK);
  refused(vmart_migration_group_wait_for(group, 0, nullptr));
  refused(vmart_migration_group_done(group, nullptr));
  refused(vmart_migration_group_report_get(group, nullptr, reports(2).data(), 2));
  refused(vmart_migration_group_request(group, 3, &migration));
  refused(vmart_migration_group_request(group, 0, nullptr));
  EXPECT_EQ(vmart_migration_group_wait(group), VMART_OK);
  vmart_migration_group_release(group);
}

// The elements are as far apart as the caller's version says.
TEST_F(GroupCalls, ArraysOfALaterVersionAreRead) {
  struct Request {
    vmart_move_request known;
    std::uint64_t later;
  };
  struct Report {
    vmart_migration_report known;
    std::uint64_t later;
  };
  std::vector<Request> requests;
  for (const vmart_move_request& one : requests_to(c_gpu(1))) requests.push_back({one, 0});
  for (Request& one : requests) one.known.size_bytes = sizeof one;
  std::vector<Report> each(3);
  for (Report& one : each) {
    one.known.size_bytes = sizeof one;
    one.later = 77;
  }
  EXPECT_EQ(vmart_migrate_many(&requests[0].known, 3, nullptr, nullptr, &each[0].known), VMART_OK)
      << vmart_last_error();
  for (const Report& one : each) {
    EXPECT_EQ(one.known.size_bytes, sizeof(vmart_migration_report));
    EXPECT_EQ(one.known.chunks_moved, 2);
    EXPECT_EQ(one.later, 77u);
  }
  for (std::uint64_t* words : words_) EXPECT_EQ(home_of(words), "gpu(1)");
  requests[2].later = 1;
  EXPECT_EQ(vmart_migrate_many(&requests[0].known, 3, nullptr, nullptr, nullptr),
            VMART_INVALID_ARGUMENT)
      << "a value that this version does not know";
}

// A program of the first version has shorter reports and options.
TEST_F(GroupCalls, StructsOfTheFirstVersionAreTaken) {
  constexpr std::size_t first_report_bytes = offsetof(vmart_migration_report, status);
  alignas(vmart_migration_report) std::byte storage[3][first_report_bytes];
  auto* const first = reinterpret_cast<vmart_migration_report*>(storage);
  for (auto& one : storage) {
    reinterpret_cast<vmart_migration_report*>(one)->size_bytes = first_report_bytes;
  }
  vmart_migrate_options options{};
  options.size_bytes = offsetof(vmart_migrate_options, all_or_nothing);
  options.all_or_nothing = 12345;  // Behind its end.
  EXPECT_EQ(vmart_migrate_many(requests_to(c_gpu(1)).data(), 3, &options, nullptr, first), VMART_OK)
      << vmart_last_error();
  for (auto& one : storage) {
    EXPECT_EQ(reinterpret_cast<vmart_migration_report*>(one)->chunks_moved, 2);
  }
}

TEST_F(GroupCalls, AGroupInTheBackgroundHasAHandle) {
  vmart_migration_group* group = nullptr;
  ASSERT_EQ(vmart_migrate_many_async(requests_to(c_gpu(1)).data(), 3, nullptr, &group), VMART_OK);
  ASSERT_EQ(vmart_migration_group_wait(group), VMART_OK) << vmart_last_error();
  int done = 0;
  EXPECT_EQ(vmart_migration_group_done(group, &done), VMART_OK);
  EXPECT_EQ(done, 1);
  auto total = reports(1), each = reports(3);
  ASSERT_EQ(vmart_migration_group_report_get(group, total.data(), each.data(), 3), VMART_OK);
  EXPECT_EQ(total[0].chunks_moved, 6);
  EXPECT_EQ(total[0].chunks_live, 6);
  EXPECT_LT(total[0].gates, 6);
  for (const auto& one : each) EXPECT_EQ(one.chunks_moved, 2);
  vmart_migration* one = nullptr;
  ASSERT_EQ(vmart_migration_group_request(group, 2, &one), VMART_OK);
  vmart_migration_group_release(group);
  EXPECT_EQ(vmart_migration_wait(one), VMART_OK) << "it outlives the group";
  vmart_migration_release(one);
  for (std::uint64_t* words : words_) EXPECT_EQ(home_of(words), "gpu(1)");
}

TEST_F(GroupCalls, ACancelledGroupSaysWhatHasMoved) {
  std::promise<void> reached, cancelled;
  std::atomic<int> seen{0};
  const MoveHookRegistration hook = on_move(words_[2], {[&](const MoveEvent&) {
                                                          if (++seen > 1) return;
                                                          reached.set_value();
                                                          cancelled.get_future().wait();
                                                        },
                                                        {}});
  vmart_migration_group* group = nullptr;
  ASSERT_EQ(vmart_migrate_many_async(requests_to(c_gpu(1)).data(), 3, nullptr, &group), VMART_OK);
  reached.get_future().wait();
  int done = 1;
  EXPECT_EQ(vmart_migration_group_wait_for(group, 1'000'000, &done), VMART_OK);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(vmart_migration_group_cancel(group), VMART_OK);
  cancelled.set_value();
  EXPECT_EQ(vmart_migration_group_wait_for(group, long_ns, &done), VMART_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(vmart_migration_group_wait(group), VMART_CANCELLED);
  EXPECT_NE(std::string(vmart_last_error()).find("2"), std::string::npos);
  auto total = reports(1), each = reports(3);
  EXPECT_EQ(vmart_migration_group_report_get(group, total.data(), each.data(), 3), VMART_OK);
  EXPECT_EQ(total[0].outcome, VMART_ENDED_CANCELLED);
  EXPECT_EQ(total[0].status, VMART_CANCELLED);
  EXPECT_EQ(each[2].status, VMART_CANCELLED);
  EXPECT_EQ(home_of(words_[2]), "gpu(0)");
  vmart_migration_group_release(group);
}

}  // namespace
}  // namespace vma
