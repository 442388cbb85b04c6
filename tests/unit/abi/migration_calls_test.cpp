// Goal: migrations work through C: ranges, the handle of a background migration, and its report.
#include "unit/abi/abi_rig.hpp"

#include <atomic>
#include <cstring>
#include <future>

namespace vma {
namespace {

class MigrationCalls : public AbiTest {
 protected:
  MigrationCalls() {
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_attach(stream(gpu)), VMART_OK);
  }
  ~MigrationCalls() override {
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_detach(stream(gpu)), VMART_OK);
  }
  static vmart_migration_report report_of(vmart_migration* migration) {
    vmart_migration_report report{};
    report.size_bytes = sizeof report;
    EXPECT_EQ(vmart_migration_report_get(migration, &report), VMART_OK);
    return report;
  }
};

TEST_F(MigrationCalls, ARangeCountsFromTheAddressAndIsRoundedOutToChunks) {
  std::uint64_t* words = filled(4, 1);
  auto* bytes = reinterpret_cast<char*>(words);
  EXPECT_EQ(vmart_migrate(bytes + chunk_bytes + 8, 0, 8, c_gpu(1), nullptr), VMART_OK);
  EXPECT_EQ(vmart_migrate(bytes + chunk_bytes - 1, 2 * chunk_bytes + 1, 1, c_host(0), nullptr),
            VMART_OK);
  const std::vector<Extent> extents = where(words);
  ASSERT_EQ(extents.size(), 4u);
  EXPECT_EQ(extents[0].at, gpu(0));
  EXPECT_EQ(extents[1].at, gpu(1));
  EXPECT_EQ(extents[2].at, gpu(0));
  EXPECT_EQ(extents[3].at, host(0));
  EXPECT_EQ(vmart_migrate(bytes + chunk_bytes + 8, 0, 0, c_gpu(1), nullptr), VMART_OK);
  EXPECT_EQ(where(words).size(), 1u) << "no range is all of it";
  EXPECT_EQ(vmart_migrate(words, 8, 0, c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migrate(words, 0, 4 * chunk_bytes + 1, c_gpu(0), nullptr),
            VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migrate(words + 1, SIZE_MAX - 1, 8, c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(wrong(words, 4, 1), 0u);
  vma::free(words);
}

TEST_F(MigrationCalls, AMoveInTheBackgroundTellsWhatItDid) {
  std::uint64_t* words = filled(4, 3);
  vmart_migration* migration = nullptr;
  ASSERT_EQ(vmart_migrate_async(words + 1, 0, 0, c_gpu(1), nullptr, &migration), VMART_OK);
  ASSERT_EQ(vmart_migration_wait(migration), VMART_OK) << vmart_last_error();
  int done = 0;
  EXPECT_EQ(vmart_migration_done(migration, &done), VMART_OK);
  EXPECT_EQ(done, 1);
  const vmart_migration_report report = report_of(migration);
  EXPECT_EQ(report.size_bytes, sizeof report);
  EXPECT_EQ(report.outcome, VMART_DONE);
  EXPECT_EQ(report.bytes_asked, 4 * chunk_bytes);
  EXPECT_EQ(report.bytes_moved, 4 * chunk_bytes);
  EXPECT_EQ(report.chunks, 4);
  EXPECT_EQ(report.chunks_moved, 4);
  EXPECT_EQ(report.chunks_live, 4);
  EXPECT_GT(report.stall_median_ns, 0);
  EXPECT_GE(report.stall_p99_ns, report.stall_median_ns);
  EXPECT_GT(report.stall_max_ns, 0);
  // A gate if the stream got to one within a millisecond, which a busy computer may not let it.
  EXPECT_TRUE(report.stop == VMART_STOP_GATE || report.stop == VMART_STOP_SUSPENSION);
  EXPECT_GT(report.wall_ns, report.stall_max_ns);
  vmart_migration_release(migration);
  EXPECT_EQ(home_of(words), "gpu(1)");
  EXPECT_EQ(wrong(words, 4, 3), 0u);
  vma::free(words);
}

TEST_F(MigrationCalls, OptionsSayHowToMove) {
  std::uint64_t* words = filled(4, 3);
  const auto moved_live = [&](vmart_migrate_options options, int to) {
    options.size_bytes = sizeof options;
    vmart_migration* migration = nullptr;
    EXPECT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(to), &options, &migration), VMART_OK);
    EXPECT_EQ(vmart_migration_wait(migration), VMART_OK) << vmart_last_error();
    const vmart_migration_report report = report_of(migration);
    EXPECT_EQ(report.chunks_moved, 4);
    vmart_migration_release(migration);
    return report.chunks_live;
  };
  vmart_migrate_options options{};
  EXPECT_EQ(moved_live(options, 1), 4);
  options.mode = VMART_MODE_STOPPED;
  EXPECT_EQ(moved_live(options, 0), 0);
  options.mode = VMART_MODE_LIVE;
  options.scope = VMART_SCOPE_ATTACHED;
  EXPECT_EQ(moved_live(options, 1), 4);
  options = {};
  options.scope = VMART_SCOPE_HOLD;
  options.deadline_ms = long_ns / 1'000'000;
  options.priority = -1;
  options.reserve_first = 1;
  EXPECT_EQ(moved_live(options, 0), 0);
  options = {};
  options.size_bytes = sizeof options;
  options.mode = VMART_MODE_LIVE;
  options.scope = VMART_SCOPE_ATTACHED;
  options.paranoid = 1;
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(1), &options), VMART_OK) << vmart_last_error();
  EXPECT_EQ(home_of(words), "gpu(1)");
  EXPECT_EQ(wrong(words, 4, 3), 0u);
  vma::free(words);
}

TEST_F(MigrationCalls, OptionsLimitTheStallOfAGate) {
  std::uint64_t* words = filled(4, 3);
  const auto gates = [&](std::int32_t max_stall_us, int to) {
    vmart_migrate_options options{};
    options.size_bytes = sizeof options;
    options.max_stall_us = max_stall_us;
    vmart_migration* migration = nullptr;
    EXPECT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(to), &options, &migration), VMART_OK);
    EXPECT_EQ(vmart_migration_wait(migration), VMART_OK) << vmart_last_error();
    const vmart_migration_report report = report_of(migration);
    vmart_migration_release(migration);
    return report.gates;
  };
  EXPECT_GE(gates(1, 1), 4);
  EXPECT_LT(gates(20'000'000, 0), 4);
  vma::free(words);
}

TEST_F(MigrationCalls, OptionsThatMeanNothingAreRefused) {
  std::uint64_t* words = filled(1, 3);
  const auto refused = [&](auto change) {
    vmart_migrate_options options{};
    options.size_bytes = sizeof options;
    change(options);
    vmart_migration* migration = nullptr;
    EXPECT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(1), &options, &migration),
              VMART_INVALID_ARGUMENT);
    EXPECT_EQ(migration, nullptr);
    EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(1), &options), VMART_INVALID_ARGUMENT);
  };
  refused([](vmart_migrate_options& options) { options.size_bytes = 47; });
  refused([](vmart_migrate_options& options) { options.copy_share_percent = -1; });
  refused([](vmart_migrate_options& options) { options.copy_share_percent = 101; });
  refused([](vmart_migrate_options& options) { options.size_bytes = 0; });
  refused([](vmart_migrate_options& options) { options.size_bytes = SIZE_MAX; });
  refused([](vmart_migrate_options& options) { options.max_stall_us = -1; });
  refused([](vmart_migrate_options& options) { options.mode = 3; });
  refused([](vmart_migrate_options& options) { options.mode = -1; });
  refused([](vmart_migrate_options& options) { options.scope = 3; });
  refused([](vmart_migrate_options& options) { options.scope = -1; });
  refused([](vmart_migrate_options& options) { options.scope = INT32_MIN; });
  refused([](vmart_migrate_options& options) { options.deadline_ms = -1; });
  EXPECT_EQ(home_of(words), "gpu(0)");
  vma::free(words);
}

TEST_F(MigrationCalls, OptionsOfALaterVersionAreTakenIfTheyAreZero) {
  std::uint64_t* words = filled(1, 3);
  struct {
    vmart_migrate_options known;
    std::uint64_t later;
  } grown{};
  grown.known.size_bytes = sizeof grown;
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(1), &grown.known), VMART_OK) << vmart_last_error();
  grown.later = std::uint64_t{1} << 63;
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(0), &grown.known), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(home_of(words), "gpu(1)");
  grown.known = {};
  grown.known.size_bytes = sizeof grown.known;
  grown.known.mode = VMART_MODE_LIVE;
  grown.known.scope = VMART_SCOPE_HOLD;
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(0), &grown.known), VMART_UNSUPPORTED);
  vma::free(words);
}

TEST_F(MigrationCalls, AReportIsFilledAsFarAsBothSidesKnowIt) {
  std::uint64_t* words = filled(1, 3);
  vmart_migration* migration = nullptr;
  ASSERT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(1), nullptr, &migration), VMART_OK);
  ASSERT_EQ(vmart_migration_wait(migration), VMART_OK);
  struct {
    vmart_migration_report known;
    std::uint64_t later;
  } grown{};
  grown.known.size_bytes = sizeof grown;
  grown.later = 77;
  ASSERT_EQ(vmart_migration_report_get(migration, &grown.known), VMART_OK);
  EXPECT_EQ(grown.known.size_bytes, sizeof grown.known);
  EXPECT_EQ(grown.known.chunks, 1);
  EXPECT_EQ(grown.later, 77u);
  grown.known.size_bytes = sizeof(std::size_t);
  EXPECT_EQ(vmart_migration_report_get(migration, &grown.known), VMART_INVALID_ARGUMENT);
  vmart_migration_release(migration);
  vma::free(words);
}

TEST_F(MigrationCalls, AMoveThatIsCancelledSaysSoAndStaysWhereItCame) {
  std::uint64_t* words = filled(6, 5);
  std::promise<void> cancelled;
  std::atomic<int> seen{0};
  const MoveHookRegistration hook = on_move(words, {[&](const MoveEvent&) {
                                                      if (++seen == 3)
                                                        cancelled.get_future().wait();
                                                    },
                                                    {}});
  vmart_migration* migration = nullptr;
  ASSERT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(1), nullptr, &migration), VMART_OK);
  int done = 1;
  EXPECT_EQ(vmart_migration_wait_for(migration, 1'000'000, &done), VMART_OK);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(vmart_migration_cancel(migration), VMART_OK);
  cancelled.set_value();
  EXPECT_EQ(vmart_migration_wait_for(migration, long_ns, &done), VMART_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(vmart_migration_wait(migration), VMART_CANCELLED);
  const vmart_migration_report report = report_of(migration);
  EXPECT_EQ(report.outcome, VMART_ENDED_CANCELLED);
  EXPECT_LT(report.chunks_moved, 6);
  vmart_migration_release(migration);
  EXPECT_EQ(home_of(words + 6 * chunk_bytes / 8 - 1), "gpu(0)");
  vma::free(words);
}

TEST_F(MigrationCalls, AReleasedHandleLetsTheMoveGoOn) {
  std::uint64_t* words = filled(2, 5);
  std::promise<void> released, moved;
  const MoveHookRegistration hook = on_move(words, {[&](const MoveEvent& event) {
                                                      if (event.offset != 0) return;
                                                      released.get_future().wait();
                                                    },
                                                    [&](const MoveEvent& event) {
                                                      if (event.offset != 0) moved.set_value();
                                                    }});
  vmart_migration* migration = nullptr;
  ASSERT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(1), nullptr, &migration), VMART_OK);
  vmart_migration_release(migration);
  released.set_value();
  moved.get_future().wait();
  EXPECT_EQ(home_of(words + chunk_bytes / 8), "gpu(1)");
  vma::free(words);
}

TEST_F(MigrationCalls, StreamsAreAttachedToAllMemoryOrToOneAllocation) {
  for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_detach(stream(gpu)), VMART_OK);
  std::uint64_t* words = filled(2, 5);
  std::uint64_t* other = filled(2, 5);
  vmart_migration* migration = nullptr;
  EXPECT_EQ(vmart_attach_to(stream(0), words + 9), VMART_OK);
  ASSERT_EQ(vmart_migrate_async(other, 0, 0, c_gpu(1), nullptr, &migration), VMART_OK);
  EXPECT_EQ(vmart_migration_wait(migration), VMART_OK);
  EXPECT_EQ(report_of(migration).stop, VMART_STOP_SUSPENSION) << "nothing is attached to use it";
  vmart_migration_release(migration);
  ASSERT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(1), nullptr, &migration), VMART_OK);
  EXPECT_EQ(vmart_migration_wait(migration), VMART_OK);
  vmart_migration_release(migration);
  EXPECT_EQ(vmart_detach(stream(0)), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_detach_from(stream(0), words), VMART_OK);
  EXPECT_EQ(vmart_attach_as(stream(0), words, VMART_WORK_NO_GRAPHS), VMART_OK);
  EXPECT_EQ(vmart_attach_as(stream(0), nullptr, VMART_WORK_ANY), VMART_OK);
  EXPECT_EQ(vmart_detach_from(stream(0), words), VMART_OK);
  EXPECT_EQ(vmart_detach(stream(0)), VMART_OK);
  vma::free(words);
  vma::free(other);
  for (int gpu = 0; gpu < 2; ++gpu) EXPECT_EQ(vmart_attach(stream(gpu)), VMART_OK);
}

TEST_F(MigrationCalls, NullIsRefused) {
  std::uint64_t* words = filled(1, 1);
  vmart_migration* migration = nullptr;
  vmart_migration_report report{};
  int done = 0;
  EXPECT_EQ(vmart_migrate(nullptr, 0, 0, c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migrate_async(nullptr, 0, 0, c_gpu(0), nullptr, &migration),
            VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migrate_async(words, 0, 0, c_gpu(0), nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migration_wait(nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migration_wait_for(nullptr, 0, &done), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migration_done(nullptr, &done), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migration_cancel(nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_migration_report_get(nullptr, &report), VMART_INVALID_ARGUMENT);
  vmart_migration_release(nullptr);
  EXPECT_EQ(vmart_attach_to(stream(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_detach_from(stream(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_attach_as(stream(0), words, VMART_WORK_NO_GRAPHS + 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_attach_as(stream(0), words, -1), VMART_INVALID_ARGUMENT);
  vma::free(words);
}

}  // namespace
}  // namespace vma
