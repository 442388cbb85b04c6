// Goal: a move of exported memory takes its importers along, all or nothing: places, rights, hooks
// and reports are right in both processes, and what keeps the memory in place for an importer keeps
// it for all. Method: two runtimes of one process; peers that answer wrongly or not at all.

#include "migrate/stops/copy_scopes.hpp"
#include "sharing/shared_decision.hpp"
#include "unit/sharing/sharing_rig.hpp"

#include <vma/group.hpp>

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace vma {
namespace {

class Following : public SharingTest {
 protected:
  explicit Following(const RuntimeOptions& opened = {}) : SharingTest(opened) {
    options.deadline = std::chrono::seconds(20);
    hasty.deadline = std::chrono::milliseconds(100);
  }
  /// A peer that has imported, and follows by hand.
  static ShareChannel imported(const ExportedAllocation& exported) {
    ShareChannel channel = greeted(exported);
    channel.send(message_of(ShareKind::ready), soon());
    EXPECT_EQ(channel.receive(soon()).kind, ShareKind::done);
    return channel;
  }
  static ShareMessage take(ShareChannel& channel) {
    return channel.receive(soon(), ShareChannel::Takes::descriptors);
  }
  void expect_unmoved(std::uint64_t* theirs = nullptr) {
    EXPECT_EQ(exporter.place(words), gpu(0));
    EXPECT_EQ(exporter.wrong(words, words_shared, 40), 0u);
    exporter.check_invariants();
    if (theirs == nullptr) return;
    EXPECT_EQ(importer.place(theirs), gpu(0));
    EXPECT_EQ(importer.wrong(theirs, words_shared, 40), 0u);
    importer.check_invariants();
  }
  void expect_shared(std::uint64_t* theirs) {
    importer.fill_by(1, theirs, words_shared, 900);
    EXPECT_EQ(exporter.wrong(words, words_shared, 900), 0u);
    exporter.fill_by(0, words, words_shared, 700);
    EXPECT_EQ(importer.wrong_for(0, theirs, words_shared, 700), 0u);
  }
  void moves_again(std::uint64_t* theirs) {
    exporter.runtime().migrate(words, gpu(1), options);
    EXPECT_EQ(importer.place(theirs), gpu(1));
    expect_shared(theirs);
  }

  MigrateOptions options, hasty;
};

class FollowingAtGates : public Following {
 protected:
  FollowingAtGates() : Following(without_suspension()) {}
};

// In a process of its own, where what is noted stays.
TEST_F(Following, IsRefusedWhereCopiesHaveNoGuards) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        static std::atomic<int> looks{0};
        const ExportedAllocation exported = share();
        std::uint64_t* theirs = import(exported);
        CopyScopes::process().guarded_by(+[]() noexcept { ++looks; });
        exporter.runtime().migrate(words, gpu(1), options);
        const bool both_look = looks >= 2;
        CopyScopes::process().note_unguarded("a test says so");
        try {
          exporter.runtime().migrate(words, gpu(0), options);
          std::_Exit(1);
        } catch (const Error& error) {
          const bool said =
              std::string_view(error.what()).find("a test says so") != std::string_view::npos;
          std::_Exit(both_look && said && importer.place(theirs) == gpu(1) ? 0 : 2);
        }
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Following, TheMemoryMovesToEveryPlaceAndBack) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  for (const Place to : {gpu(1), host(0), gpu(0), gpu(1)}) {
    SCOPED_TRACE(to_string(to));
    const MigrationReport report = exporter.runtime().migrate(words, to, options);
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.bytes_moved, words_shared * 8);
    EXPECT_EQ(report.importers, 1);
    EXPECT_GT(report.importer_stall.count(), 0);
    EXPECT_EQ(exporter.place(words), to);
    EXPECT_EQ(importer.place(theirs), to);
    expect_shared(theirs);
  }
  exporter.check_invariants();
  importer.check_invariants();
}

TEST_F(Following, ARangeMovesAndTheRestStays) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  exporter.runtime().migrate(words, chunk_bytes, 1, gpu(1), options);
  const std::vector<Extent> extents = importer.runtime().where(theirs);
  ASSERT_EQ(extents.size(), 3u);
  EXPECT_EQ(extents[1].offset, chunk_bytes);
  EXPECT_EQ(extents[1].at, gpu(1));
  EXPECT_EQ(importer.wrong(theirs, words_shared, 40), 0u);
  exporter.runtime().migrate(words, gpu(1), options);
  EXPECT_EQ(importer.place(theirs), gpu(1));
  expect_shared(theirs);
}

TEST_F(FollowingAtGates, ABackgroundMoveStopsTheAttachedStreamsOfBoth) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  exporter.runtime().attach(exporter.stream(0), words);
  importer.runtime().attach(importer.stream(1), theirs);
  const MigrationReport report = exporter.runtime().migrate_async(words, gpu(1), options).wait();
  EXPECT_EQ(report.outcome, Outcome::done);
  EXPECT_EQ(report.stall.count, 1u);
  EXPECT_GT(report.gate_limit.count(), 0);
  EXPECT_EQ(importer.place(theirs), gpu(1));
  expect_shared(theirs);
}

TEST_F(Following, EachOfAGroupMovesWithItsImporters) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  std::uint64_t* others[2] = {exporter.alloc(2 * chunk_bytes, gpu(0)),
                              exporter.alloc(2 * chunk_bytes, gpu(0))};
  const ExportedAllocation second = exporter.runtime().export_allocation(others[1]);
  std::uint64_t* also = import(second);
  const std::vector<MoveRequest> requests{
      {words, gpu(1)}, {others[0], gpu(1)}, {others[1], gpu(1)}};
  const GroupReport report = exporter.runtime().migrate(requests, options);
  EXPECT_EQ(report.total.importers, 2);
  for (void* moved :
       {static_cast<void*>(words), static_cast<void*>(others[0]), static_cast<void*>(others[1])}) {
    EXPECT_EQ(exporter.place(moved), gpu(1));
  }
  EXPECT_EQ(importer.place(theirs), gpu(1));
  EXPECT_EQ(importer.place(also), gpu(1));
}

TEST_F(Following, ABackgroundMoveNeedsNoAttachedStream) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  const MigrationReport report = exporter.runtime().migrate_async(words, gpu(1), options).wait();
  EXPECT_EQ(report.outcome, Outcome::done);
  EXPECT_EQ(report.stall.count, 1u);
  EXPECT_EQ(importer.place(theirs), gpu(1));
  expect_shared(theirs);
}

TEST_F(Following, WhatPinsAnImportPinsItForAll) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  {
    const Pin pinned = importer.runtime().pin(theirs);
    EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), options); }),
              ErrorKind::pinned);
    const std::string text =
        error_text([&] { exporter.runtime().migrate(words, gpu(1), options); });
    EXPECT_NE(text.find("process " + std::to_string(getpid())), std::string::npos) << text;
    EXPECT_NE(text.find("is pinned"), std::string::npos) << text;
    expect_unmoved(theirs);
  }
  moves_again(theirs);
}

TEST_F(Following, WhatPinsTheExportersMemoryDisturbsNobody) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  const Pin pinned = exporter.runtime().pin(words);
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), options); }),
            ErrorKind::pinned);
  expect_unmoved(theirs);
}

TEST_F(Following, NothingButARequestedMigrationMovesIt) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(kind_of_error([&] { importer.runtime().migrate(theirs, gpu(1), options); }),
            ErrorKind::pinned);
  expect_unmoved(theirs);
}

TEST_F(Following, ReadOnlyRightsFollow) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  {
    const ReadOnly reads = importer.runtime().read_only(theirs);
    exporter.runtime().migrate(words, gpu(1), options);
    EXPECT_EQ(importer.wrong_for(0, theirs, words_shared, 40), 0u);
    EXPECT_THROW(importer.fill_by(0, theirs, words_shared, 1), Error) << "it may not write";
  }
}

TEST_F(Following, AnImportersHooksAreTold) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  std::vector<MoveEvent> before, after;
  MoveHooks hook;
  hook.before = [&](const MoveEvent& event) { before.push_back(event); };
  hook.after = [&](const MoveEvent& event) { after.push_back(event); };
  const MoveHookRegistration registered = importer.runtime().on_move(theirs, hook);
  exporter.runtime().migrate(words, gpu(1), options);
  ASSERT_EQ(before.size(), 3u);
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(after[2].pointer, theirs);
  EXPECT_EQ(after[2].to, gpu(1));
  EXPECT_TRUE(after[2].moved);
}

TEST_F(Following, AClosedExportMovesAlone) {
  ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  exported.close();
  exporter.runtime().migrate(words, gpu(1), options);
  EXPECT_EQ(exporter.wrong(words, words_shared, 40), 0u);
  EXPECT_EQ(importer.place(theirs), gpu(0)) << "it keeps what it has";
  EXPECT_EQ(importer.wrong(theirs, words_shared, 40), 0u);
}

TEST_F(Following, MovesAndFreesOfAnImportDoNotWaitForEachOther) {
  const ExportedAllocation exported = share();
  constexpr int rounds = 30;
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t* theirs = import(exported);
    std::thread migrator(
        [&] { exporter.runtime().migrate(words, gpu(round % 2 == 0 ? 1 : 0), options); });
    importer.runtime().free(theirs);
    migrator.join();
    ASSERT_EQ(exporter.place(words), gpu(round % 2 == 0 ? 1 : 0));
  }
  EXPECT_EQ(exporter.wrong(words, words_shared, 40), 0u);
  importer.check_invariants();
}

// --- Peers by hand

TEST_F(Following, AnImporterThatDoesNotAnswerIsNamed) {
  const ExportedAllocation exported = share();
  ShareChannel silent = imported(exported);
  std::uint64_t* theirs = import(exported);
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), hasty); }),
            ErrorKind::busy);
  expect_unmoved(theirs);
  const ShareMessage announced = take(silent);
  EXPECT_EQ(announced.kind, ShareKind::move);
  EXPECT_EQ(announced.first, 3u);
  SharedDecision decision(Descriptor(fcntl(announced.descriptors[0].get(), F_DUPFD_CLOEXEC, 0)));
  EXPECT_EQ(decision.value(), SharedDecision::Value::stay);
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), hasty); }),
            ErrorKind::busy)
      << "it still has not";
  // Answers that crossed the end of the move are ignored.
  silent.send(message_of(ShareKind::ask), soon());
  silent.send(message_of(ShareKind::ready), soon());
  silent.send(message_of(ShareKind::ended), soon());
  std::thread by_hand([&] {
    EXPECT_EQ(take(silent).kind, ShareKind::move) << "it still counts";
    silent.send(message_of(ShareKind::ended), soon());
  });
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), options); }),
            ErrorKind::busy);
  by_hand.join();
  silent = ShareChannel();
  moves_again(theirs);
}

TEST_F(Following, TheOneThatDecidesFirstDecidesForAll) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  ShareChannel peer = imported(exported);
  std::thread by_hand([&] {
    const ShareMessage announced = take(peer);
    SharedDecision decision(Descriptor(fcntl(announced.descriptors[0].get(), F_DUPFD_CLOEXEC, 0)));
    peer.send(message_of(ShareKind::ready), soon());
    EXPECT_EQ(take(peer).kind, ShareKind::stop);
    decision.decide(SharedDecision::Value::stay);
    peer.send(message_of(ShareKind::stopped), soon());
    peer.send(message_of(ShareKind::ended), soon());
  });
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), options); }),
            ErrorKind::busy);
  by_hand.join();
  expect_unmoved(theirs);
  peer = ShareChannel();
  moves_again(theirs);
}

TEST_F(Following, AnImporterThatEndsBeforeTheDecisionEndsTheMove) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  ShareChannel peer = imported(exported);
  std::thread by_hand([&] {
    take(peer);
    peer.send(message_of(ShareKind::ended), soon());
  });
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), options); }),
            ErrorKind::busy);
  by_hand.join();
  expect_unmoved(theirs);
}

TEST_F(Following, AnImporterThatBreaksTheProtocolIsDisconnectedAndTheOthersMove) {
  const ExportedAllocation exported = share();
  std::uint64_t* theirs = import(exported);
  for (const ShareKind kind : {ShareKind::stopped, ShareKind::hello, ShareKind::done}) {
    ShareChannel peer = imported(exported);
    std::thread by_hand([&] {
      take(peer);
      peer.send(message_of(kind), soon());
    });
    const Place to = exporter.place(words) == gpu(0) ? gpu(1) : gpu(0);
    exporter.runtime().migrate(words, to, options);
    by_hand.join();
    EXPECT_EQ(take(peer).kind, ShareKind::refusal);
    EXPECT_EQ(importer.place(theirs), to);
  }
  expect_shared(theirs);
}

/// A file of that size, sealed as that of a decision or not.
Descriptor file_of(off_t size_bytes, bool sealed) {
  Descriptor file(memfd_create("vmart-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), size_bytes), 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, sealed ? F_SEAL_SHRINK : F_SEAL_GROW), 0);
  return file;
}

TEST(SharedDecisions, OneThatCouldBeCutOffIsRefused) {
  const auto kind = [](Descriptor file) {
    return kind_of_error([&] { const SharedDecision taken(std::move(file)); });
  };
  EXPECT_EQ(kind(file_of(4096, false)), ErrorKind::peer_failure);
  EXPECT_EQ(kind(file_of(100, true)), ErrorKind::peer_failure);
  EXPECT_NO_THROW(SharedDecision(file_of(4096, true)));
}

TEST(SharedDecisions, TheFirstCountsForAll) {
  using Value = SharedDecision::Value;
  SharedDecision mine;
  SharedDecision theirs(mine.pass_on());
  EXPECT_EQ(theirs.value(), Value::open);
  EXPECT_EQ(mine.decide(Value::move), Value::move);
  EXPECT_EQ(theirs.decide(Value::stay), Value::move);
  EXPECT_EQ(mine.value(), Value::move);
}

TEST(SharedDecisions, OneThatNobodyKnowsMeansThatTheMemoryStays) {
  const SharedDecision decision;
  const std::uint32_t unknown = 7;
  ASSERT_EQ(pwrite(decision.pass_on().get(), &unknown, sizeof unknown, 0),
            static_cast<ssize_t>(sizeof unknown));
  EXPECT_EQ(decision.value(), SharedDecision::Value::stay);
}

TEST_F(Following, AnImporterWithoutTheTargetRefuses) {
  RuntimeOptions one_gpu;
  one_gpu.devices = {0};
  RuntimeRig narrow("test-2", one_gpu);
  const ExportedAllocation exported = share();
  void* const theirs = narrow.runtime().import_allocation(exported.path());
  EXPECT_EQ(kind_of_error([&] { exporter.runtime().migrate(words, gpu(1), options); }),
            ErrorKind::unreachable);
  expect_unmoved();
  exporter.runtime().migrate(words, host(0), options);
  EXPECT_EQ(narrow.place(theirs), host(0));
}

TEST_F(Following, TheRuntimesOfImportersShutDownBesideMoves) {
  const ExportedAllocation exported = share();
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    RuntimeRig guest;
    guest.runtime().import_allocation(exported.path());
    std::thread migrator([&] {
      try {
        exporter.runtime().migrate(words, gpu(round % 2 == 0 ? 1 : 0), options);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::busy) << error.what();
      }
    });
    guest.runtime().shutdown();
    migrator.join();
  }
  EXPECT_EQ(exporter.wrong(words, words_shared, 40), 0u);
}

}  // namespace
}  // namespace vma
